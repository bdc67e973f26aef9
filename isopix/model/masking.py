"""Masking: what the blocks see of each position, given the mask; the objective chooses one."""

import abc
from functools import reduce
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from isopix.core.registry import register
from isopix.core.types import Grid, Mask, PositionIndices, Tokens
from isopix.model.init import EMBEDDING, InitScheme, InitTable, ModelPart
from isopix.model.mlp import Norm, NormSpec
from isopix.model.stems.pixels import Components

if TYPE_CHECKING:
    from isopix.model.blocks.transformer import BlockSpec


class Masking(nn.Module, abc.ABC):
    """Sum the components of each position to one token, without those that are masked."""

    drops_tokens: ClassVar[bool] = False  # whether the backbone leaves masked positions out of the blocks
    shifts_right: ClassVar[bool] = False  # whether position i gets the token of position i - 1
    has_prefix: ClassVar[bool] = (
        False  # whether a mask covers the positions that attention only looks back at
    )
    if TYPE_CHECKING:

        def __call__(self, components: Components, mask: Mask | None) -> Tokens: ...

    @abc.abstractmethod
    def forward(self, components: Components, mask: Mask | None) -> Tokens:
        """Return the tokens [B N D]."""


class MaskingSpec(ModelPart, noun="corruption"):
    """Settings of what the blocks see in place of a masked position."""

    drops_tokens: ClassVar[bool] = False  # whether masked positions are left out of the blocks
    masks_single_codes: ClassVar[bool] = False  # whether single codes of a position can be masked

    def build_pos_norm(self, norm: NormSpec, width: int) -> Norm | None:
        """Return the norm of position embeddings that are added to decoded positions; None for none."""
        return None

    def decoded_width(self, width: int) -> int:
        """Return the width of what the head reads."""
        return width

    def build_decoder(self, block: "BlockSpec", grid: Grid, width: int) -> nn.Module | None:
        """Return the module (features, mask) -> what the head reads at masked positions; None for none."""
        return None

    def decoder_flops(self, block: "BlockSpec", grid: Grid, width: int) -> int:
        """Return the FLOPs of the decoder's forward pass per image."""
        return 0

    @abc.abstractmethod
    def build(self, width: int) -> Masking:
        """Return the module (components, mask) -> tokens."""


@register("shift_right", "inputs shifted right, start token")
class ShiftRightMaskingSpec(MaskingSpec):
    """Position i receives the token of position i - 1, the first a learned start token (OpenAI's graph)."""

    def build(self, width: int) -> "ShiftRightMasking":
        return ShiftRightMasking(width)

    def init(self, scheme: InitScheme) -> InitTable:
        return {"start": EMBEDDING[scheme]}


@register("zero", "zero vector")
class ZeroMaskingSpec(MaskingSpec):
    """Masked positions, or single codes of one, become zero before positions are added (iGPT section 2.2)."""

    masks_single_codes: ClassVar[bool] = True

    def build(self, width: int) -> "ZeroMasking":
        return ZeroMasking()


@register("mask_token", "learned mask token")
class MaskTokenMaskingSpec(MaskingSpec):
    """Masked positions become a learned vector before position embeddings are added (ViT, appendix B.1.2)."""

    def build(self, width: int) -> "MaskTokenMasking":
        return MaskTokenMasking(width)

    def init(self, scheme: InitScheme) -> InitTable:
        return {"token": EMBEDDING[scheme]}


@register("drop", "tokens dropped")
class DropMaskingSpec(MaskingSpec):
    """Masked positions are dropped before the stem (PatchFormer section 2.1), and decoded from the pooled
    vector u and the embeddings X, Y of their row and column.
    """

    drops_tokens: ClassVar[bool] = True

    norm_positions: bool = True
    """Whether the decoder reads norm(u) + norm'(X + Y) instead of norm(u) + X + Y, the paper's plain sum."""

    def build_pos_norm(self, norm: NormSpec, width: int) -> Norm:
        return norm.build(width) if self.norm_positions else nn.Identity()

    def build(self, width: int) -> "DropMasking":
        return DropMasking()


class ShiftRightMasking(Masking):
    shifts_right: ClassVar[bool] = True

    def __init__(self, width: int):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(width))

    def forward(self, components: Components, mask: Mask | None) -> Tokens:
        assert mask is None, "a shifted sequence takes no mask"
        tokens = sum_components(components)
        start = self.start.to(tokens.dtype).expand(len(tokens), 1, -1)
        return torch.cat([start, tokens[:, :-1]], dim=1)


class ZeroMasking(Masking):
    def forward(self, components: Components, mask: Mask | None) -> Tokens:
        if mask is None:
            return sum_components(components)
        if mask.shape[-1] == 1:
            return sum_components(components).masked_fill(mask, 0.0)
        masks = mask[..., None].unbind(2)
        pairs = zip(components, masks, strict=True)
        return sum_components([component.masked_fill(masked, 0.0) for component, masked in pairs])


class MaskTokenMasking(Masking):
    def __init__(self, width: int):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(width))

    def forward(self, components: Components, mask: Mask | None) -> Tokens:
        tokens = sum_components(components)
        return tokens if mask is None else torch.where(mask, self.token.to(tokens.dtype), tokens)


class PrefixMasking(Masking):
    has_prefix: ClassVar[bool] = True

    def forward(self, components: Components, mask: Mask | None) -> Tokens:
        return sum_components(components)


class DropMasking(Masking):
    """Used where no position is masked; masked positions are dropped by the backbone."""

    drops_tokens: ClassVar[bool] = True

    def forward(self, components: Components, mask: Mask | None) -> Tokens:
        assert mask is None, "the backbone drops masked positions"
        return sum_components(components)


def sum_components(components: Components) -> Tokens:
    """Return the sum of the components of each position."""
    return reduce(torch.add, components)


class LengthGroup(NamedTuple):
    """Images of a batch with equally many visible positions, and the indices of these in raster order."""

    images: Int[Tensor, " B"]
    positions: PositionIndices


def group_by_length(mask: Mask) -> list[LengthGroup]:
    """Group images by their number of positions without any masked code; waits for the mask's device."""
    counts = (~mask.any(-1)).sum(1)
    groups = []
    for count in sorted(set(counts.tolist())):
        images = (counts == count).nonzero()[:, 0]
        groups.append(LengthGroup(images, visible_positions(mask[images], count)))
    return groups


def visible_positions(mask: Mask, count: int) -> PositionIndices:
    """Return the `count` positions of each image without any masked code, in raster order."""
    return mask.any(-1).to(torch.uint8).argsort(dim=1, stable=True)[:, :count]


def after_prefix(mask: Mask) -> Bool[Tensor, "B 1 N N"]:
    """Return which positions (rows) see which: those outside the mask, and those not after them."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    earlier = positions <= positions[:, None]
    return (earlier | ~mask.mT)[:, None]
