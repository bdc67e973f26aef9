"""Recipe: the complete settings of a run, and the network that they describe."""

from dataclasses import field

import torch
from torch import nn

from isopix.codecs import CodecSpec, PaletteSpec
from isopix.codecs.base import Codec
from isopix.core.config import spec
from isopix.core.device import Precision
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.data.dataset import DataConfig
from isopix.finetune.classifier import Classify
from isopix.model.backbone import Backbone
from isopix.model.blocks import Block, Transformer
from isopix.model.heads import Head, Linear
from isopix.model.init import Initial, initialise
from isopix.model.positions import Learned, Positions
from isopix.model.stems import Codes, Stem
from isopix.objectives.autoregressive import Autoregressive
from isopix.objectives.network import Network, ObjectiveSpec
from isopix.train.optim import Adam, Optimiser
from isopix.train.schedule import Schedule, WarmupCosine

# Of a recipe, what is decided once there are weights.
NETWORK = (
    "codec",
    "stem",
    "positions",
    "class_token",
    "block",
    "depth",
    "width",
    "share_blocks",
    "head",
    "objective",
)


@spec
class Recipe:
    """Every choice of a run; the defaults are the paper's where it makes one (iGPT sections 3 and 3.4,
    table 5).

    `batch` images a step make one update, in `accumulate` pieces; `*_every` count steps; `evaluate_images` is
    how many validation images an evaluation during training reads, and `test_images` how many test images are
    graded at its end. With `class_token` a learned vector goes with the positions through all blocks, and
    with `share_blocks` all blocks are one, run `depth` times (ALBERT). With `classify` the classes of the
    images are learnt beside their codes. With `probe_every` 0 the run is not probed while it trains; with
    `neighbours`, an evaluation also looks up the nearest of so many training images.
    """

    name: str
    data: DataConfig = field(default_factory=DataConfig)
    codec: CodecSpec = field(default_factory=PaletteSpec)
    stem: Stem = field(default_factory=Codes)
    positions: Positions = field(default_factory=Learned)
    class_token: bool = False
    block: Block = field(default_factory=Transformer)
    depth: int
    width: int
    share_blocks: bool = False
    head: Head = field(default_factory=Linear)
    initial: Initial = "openai"
    objective: ObjectiveSpec = field(default_factory=Autoregressive)
    classify: Classify | None = None
    steps: int = 1_000_000
    batch: int = 128
    accumulate: int = 1
    optimiser: Optimiser = field(default_factory=Adam)
    schedule: Schedule = field(default_factory=WarmupCosine)
    precision: Precision = "bf16"
    compile: bool = False
    seed: int = 0
    log_every: int = 10
    evaluate_every: int = 1000
    evaluate_images: int = 1024
    test_images: int = 10_000
    neighbours: int = 0
    checkpoint_every: int = 1000
    probe_every: int = 0

    def __post_init__(self) -> None:
        for name in (
            "depth",
            "width",
            "steps",
            "batch",
            "accumulate",
            "log_every",
            "evaluate_every",
            "checkpoint_every",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} must be at least 1")
        for name in ("evaluate_images", "test_images", "neighbours", "probe_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} {getattr(self, name)} must be at least 0")
        if self.batch % self.accumulate:
            raise ValueError(f"batch {self.batch} is not a multiple of accumulate {self.accumulate}")
        if self.data.rows % self.codec.patch_size or self.data.cols % self.codec.patch_size:
            sides, cell = f"{self.data.rows} x {self.data.cols}", self.codec.patch_size
            raise ValueError(f"images of {sides} pixels cannot be cut into patches of {cell} x {cell}")

    @property
    def grid(self) -> Grid:
        """Of positions: pixels, or patches."""
        return Grid(self.data.rows // self.codec.patch_size, self.data.cols // self.codec.patch_size)

    @property
    def learns_codes(self) -> bool:
        """Whether what names codes is trained, and not left behind by fine-tuning."""
        return self.classify is None or self.classify.generates

    def build(self, codec: Codec) -> Network:
        """The network as it is before its first step; every weight is a function of `seed`.

        Raises ValueError for parts that do not fit together.
        """
        network = self.assemble(codec)
        draw = generator(self.seed, "initialise")
        initialise(network, width=self.width, depth=self.depth, generator=draw, initial=self.initial)
        return network

    def assemble(self, codec: Codec) -> Network:
        """The same network before any weight is drawn; under `torch.device("meta")` it takes no memory."""
        grid, width, causal = codec.grid, self.width, self.objective.causal
        self._check_parts(codec)
        parts = [
            self.stem.build(codec, width),
            self.objective.masking.build(width),
            self.positions.build(grid, width),
        ]
        own, turns = (1, self.depth) if self.share_blocks else (self.depth, 1)
        blocks = [self.block.build(grid, width, causal) for _ in range(own)] * turns
        token = nn.Parameter(torch.zeros(width)) if self.class_token else None
        backbone = Backbone(grid, parts, blocks, self.block.norm.build(width), token, self._place_norm())
        return Network(codec, backbone, self.head.build(codec, width), self.objective)

    def _place_norm(self) -> nn.Module | None:
        """What vectors of places go through where they are decoded on their own."""
        masking = self.objective.masking
        if masking.kind != "drop":
            return None
        return self.block.norm.build(self.width) if masking.norm_places else nn.Identity()

    def _check_parts(self, codec: Codec) -> None:
        """Raises ValueError for parts of which each is possible, and which do not go together."""
        drops = self.objective.masking.kind == "drop"
        if self.class_token and self.objective.causal:
            raise ValueError("class_token does not go with a causal network, in which it would see nothing")
        if (self.class_token or drops) and not self.block.anywhere:
            what = "class_token" if self.class_token else "objective.masking=drop"
            raise ValueError(f"{what} does not go with block {self.block.kind}, which needs the whole grid")
        if self.compile and drops:
            raise ValueError("compile=true does not go with objective.masking=drop")
        self._check_head()
        self.objective.require(codec.grid)
        parts = self.stem.parts(codec)
        if self.objective.single_codes and codec.num_codes not in (1, parts):
            raise ValueError(
                f"a mask of single codes needs a stem with one part for each of {codec.num_codes} codes; "
                f"{self.stem.kind} has {parts}"
            )

    def _check_head(self) -> None:
        """Raises ValueError for an objective that asks chances of levels from a head without any."""
        if self.head.categorical:
            return
        if self.objective.paints:
            raise ValueError(
                f"head {self.head.kind} does not go with objective {self.objective.kind}, which draws codes "
                "by their chances; take objective=masked"
            )
        if self.objective.smoothing:
            raise ValueError(
                f"head {self.head.kind} has no labels to smooth; objective.smoothing "
                f"{self.objective.smoothing} must be 0"
            )
