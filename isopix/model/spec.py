"""ModelSpec: the parts and sizes of a network, and nothing of how it is trained."""

from dataclasses import field

from isopix.codecs import PaletteSpec
from isopix.codecs.base import CodecSpec
from isopix.core.config import config
from isopix.model.blocks import BlockSpec, Transformer
from isopix.model.heads import HeadSpec, Linear
from isopix.model.init import Initial
from isopix.model.positions import Learned, PositionsSpec
from isopix.model.stems import Codes, StemSpec


@config
class ModelSpec:
    """The network; the defaults are Image GPT's (iGPT section 3).

    With `class_token` a learned vector goes through all blocks before the positions; with `tie_blocks` all
    blocks share the weights of one (ALBERT). `init` names the scheme of initialization.
    """

    codec: CodecSpec = field(default_factory=PaletteSpec)
    stem: StemSpec = field(default_factory=Codes)
    positions: PositionsSpec = field(default_factory=Learned)
    class_token: bool = False
    block: BlockSpec = field(default_factory=Transformer)
    depth: int
    width: int
    tie_blocks: bool = False
    head: HeadSpec = field(default_factory=Linear)
    init: Initial = "openai"

    def __post_init__(self) -> None:
        for name in ("depth", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} must be at least 1")
