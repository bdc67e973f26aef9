"""Classification beside the objective: one pass, two losses of the same states."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.config import config
from isopix.core.random import generator as seeded
from isopix.core.types import Images, Labels, Mask, Scalar
from isopix.model.backbone import HiddenState
from isopix.model.conv_layers import Bottleneck
from isopix.model.heads import ClassHead, ClassLogits
from isopix.model.init import initialize
from isopix.model.pool import POOLS, Pool
from isopix.model.pos_embed_resize import Interpolation
from isopix.model.stems.base import Inputs
from isopix.objectives.base import Augment, Loss, ObjectiveSpec, PretrainModel, TrainingBatch, stem_inputs
from isopix.objectives.masked import Masked
from isopix.objectives.masks import exact_ratio_mask


@config
class Classify:
    """Fine-tuning: generative_weight * L_GEN + L_CLF (iGPT sections 2.3 and 2.4; weight 1 there).

    `generative_weight` 0 leaves L_CLF alone, `inf` leaves L_GEN alone. The class head reads the pooled states
    of `layer`, None the last; with `residual_block` they go through one first. `dropout` leaves out features
    of that vector while training, and `smoothing` shares so much of each label among all classes. `patience`
    ends the run after so many evaluations without a better validation accuracy; with None, and where L_GEN is
    alone, nothing is chosen: it goes to its last step, and those weights are judged. A masked network is
    trained with its masks on, or with `hide` with masks of so large a share of single positions, of which 0
    leaves nothing to L_GEN; `masked` says whether it is also judged with them (the released code does).
    `interpolation` is how positions come from pre-training's, where images have another size.
    """

    generative_weight: float | Literal["inf"] = 1.0
    layer: int | None = None
    pool: Pool = "mean"
    residual_block: bool = False
    dropout: float = 0.0
    smoothing: float = 0.0
    patience: int | None = 10
    hide: float | None = None
    masked: bool = True
    interpolation: Interpolation = "bilinear"

    def __post_init__(self) -> None:
        if not float(self.generative_weight) >= 0:
            raise ValueError(f"generative_weight {self.generative_weight} must be at least 0")
        for name in ("dropout", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} must lie in [0, 1)")
        if self.hide is not None and not 0 <= self.hide < 1:
            raise ValueError(f"hide {self.hide} must lie in [0, 1)")
        if self.hide == 0 and self.generates:
            raise ValueError(
                "hide 0 leaves no codes to name; set a share, hide=null for the objective's own mask, "
                "or generative_weight=0"
            )
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience {self.patience} must be at least 1")

    def place(self, depth: int) -> int:
        """The layer that the class head reads of so many. Raises ValueError for one that is not there."""
        if self.layer is not None and not 0 <= self.layer <= depth:
            raise ValueError(f"classify.layer {self.layer} does not exist; allowed: 0 to {depth}")
        return depth if self.layer is None else self.layer

    @property
    def chooses(self) -> bool:
        """Whether validation chooses the step whose weights are judged."""
        return self.classifies and self.patience is not None

    @property
    def generates(self) -> bool:
        return float(self.generative_weight) > 0

    @property
    def classifies(self) -> bool:
        return self.generative_weight != "inf"


class Lesson(NamedTuple):
    """A problem whose images have classes as well.

    `kept` is what dropout multiplies each feature by, `share` each image's part of L_CLF.
    """

    problem: TrainingBatch
    labels: Labels
    kept: Float[Tensor, "B D"]
    share: Float[Tensor, " B"]

    def to(self, device: torch.device) -> "Lesson":
        problem, *rest = self
        return Lesson(problem.to(device), *(item.to(device, non_blocking=True) for item in rest))

    def chunks(self, count: int) -> Iterator["Lesson"]:
        """The lesson in `count` runs of images, as even as can be."""
        problem, *rest = self
        split = (item.tensor_split(count) for item in rest)
        return (Lesson(*items) for items in zip(problem.chunks(count), *split, strict=True))


class Classifier(nn.Module):
    """A network with a head for classes, which is zero at first: exactly ln C before training. Its residual
    block, if it has one, starts as `seed` says.
    """

    def __init__(self, model: PretrainModel, width: int, classes: int, settings: Classify, *, seed: int = 0):
        super().__init__()
        network = model.network
        self.network, self.settings = network, settings
        self.objective = _hiding(model.objective, settings.hide, network.backbone.grid.positions)
        depth = network.backbone.depth
        self.layer = settings.place(depth)
        self.head = ClassHead(width, classes, residual_block=settings.residual_block).to(network.device)
        if self.head.block is not None:
            initialize(
                self.head.block,
                {"": Bottleneck.INIT},
                width=width,
                depth=depth,
                generator=seeded(seed, "classifier"),
            )
        self._freeze()

    def prepare(
        self,
        images: Images,
        labels: Labels,
        generator: torch.Generator,
        augment: Augment = lambda images: images,
    ) -> Lesson:
        """The network's own problem, or one with nothing hidden; the classes, and what dropout leaves."""
        problem = self._problem(images, generator)
        kept = torch.ones(len(images), self.head.weight.shape[1])
        if self.settings.dropout:
            left = 1 - self.settings.dropout
            kept = (torch.rand(kept.shape, generator=generator) < left).float() / left
        problem = stem_inputs(problem, images, self.network, augment)
        return Lesson(problem, labels, kept, torch.full((len(images),), 1 / len(images)))

    def _problem(self, images: Images, generator: torch.Generator) -> TrainingBatch:
        if self.settings.hide != 0:
            return self.objective.make_batch(images, self.network.codec, generator)
        codes = self.network.codec.encode(images)
        return TrainingBatch.of(images, None, codes, torch.zeros_like(codes[..., :1], dtype=torch.bool))

    def forward(self, lesson: Lesson) -> Loss:
        """The joint loss."""
        problem, settings = lesson.problem, self.settings
        if not settings.classifies:
            return self.objective.loss(self.network, problem)
        if not settings.generates:
            [at] = self.network.backbone.forward_intermediates([self.layer], problem.inputs, problem.mask)
            return self._trained(at, lesson)
        at, last = self._states(problem)
        generative = self.objective.decoded_loss(self.network.head, last, problem)
        return float(settings.generative_weight) * generative + self._trained(at, lesson)

    def grade(self, lesson: Lesson, images: Images) -> dict[str, Scalar]:
        """Nats a graded code where codes are learnt, nats an image, and the share of images whose class is
        answered; `images` are those of the lesson as they are, which is what is judged without masks.
        """
        problem = lesson.problem
        unmasked = problem.mask is not None and not self.settings.masked
        if not self.settings.generates:
            seen = (self.network.inputs_of(images), None) if unmasked else (problem.inputs, problem.mask)
            return self._judged(self.answer(*seen), lesson)
        at, last = self._states(problem)
        codes = self.objective.decoded_eval_loss(self.network.head, last, problem)
        logits = self.answer(self.network.inputs_of(images)) if unmasked else self.head_of(at)
        return {"loss_nats": codes, **self._judged(logits, lesson)}

    def answer(self, inputs: Inputs, mask: Mask | None = None) -> ClassLogits:
        """Logits [B C] of the classes."""
        [at] = self.network.backbone.forward_intermediates([self.layer], inputs, mask)
        return self.head_of(at)

    def head_of(self, tokens: HiddenState, kept: Float[Tensor, "B D"] | None = None) -> ClassLogits:
        """The class logits that pooled tokens give."""
        pooled = POOLS[self.settings.pool](tokens, self.network.backbone.num_prefix_tokens)
        return self.head(pooled, kept)

    def _judged(self, logits: ClassLogits, lesson: Lesson) -> dict[str, Scalar]:
        right = (logits.argmax(1) == lesson.labels).float().mean()
        return {"class_nats": self._class_loss(logits, lesson), "accuracy": right}

    def _trained(self, at: HiddenState, lesson: Lesson) -> Loss:
        """L_CLF as training has it: of the features that are kept, against soft labels."""
        return self._class_loss(self.head_of(at, lesson.kept), lesson, self.settings.smoothing)

    def _class_loss(self, logits: ClassLogits, lesson: Lesson, smoothing: float = 0.0) -> Scalar:
        losses = F.cross_entropy(logits, lesson.labels, reduction="none", label_smoothing=smoothing)
        return (losses * lesson.share).sum()

    def _states(self, problem: TrainingBatch) -> list[HiddenState]:
        """n of the layer that is classified, and what the head of codes reads."""
        backbone = self.network.backbone
        layers = [self.layer, backbone.depth]
        at, last = backbone.forward_intermediates(layers, problem.inputs, problem.mask)
        return [at, backbone.decoder_input(last, problem.mask)]

    def _freeze(self) -> None:
        """What has no part in the loss is not trained, and needs no memory of the optimizer."""
        idle: set[nn.Parameter] = set()
        backbone = self.network.backbone
        if not self.settings.generates:
            idle = set(self.network.parameters()) - set(backbone.truncated(self.layer).parameters())
        if self.settings.hide == 0:
            idle |= set(backbone.masking.parameters())
        if not self.settings.classifies:
            idle = set(self.head.parameters())
        for parameter in idle:
            parameter.requires_grad_(False)


def _hiding(objective: ObjectiveSpec, share: float | None, positions: int) -> ObjectiveSpec:
    """The objective itself, or one that hides so large a share of single positions. Raises ValueError for one
    that hides nothing, and for a grid too small.
    """
    if share is None:
        return objective
    if not isinstance(objective, Masked):
        raise ValueError(
            f"classify.hide {share} does not go with objective {objective.kind}, which hides nothing"
        )
    return replace(objective, mask=exact_ratio_mask(share, positions)) if share else objective
