"""Masking: what of each position the blocks may see. (parts, hidden) -> tokens; an objective says which."""

import abc
from functools import reduce
from typing import ClassVar

import torch
from torch import nn

from isopix.core.registry import Part, register
from isopix.core.types import Mask, Tokens
from isopix.model.norms import NormSpec
from isopix.model.stems.base import Parts


class MaskingSpec(Part, noun="corruption"):
    """Settings of what the blocks see in place of a masked position."""

    drops_tokens: ClassVar[bool] = False  # whether masked positions are left out of the blocks
    masks_single_codes: ClassVar[bool] = False  # whether single codes of a position can be masked

    def build_pos_norm(self, norm: NormSpec, width: int) -> nn.Module | None:
        """Return the norm of position embeddings that are added to decoded positions; None for none."""
        return None

    @abc.abstractmethod
    def build(self, width: int) -> nn.Module:
        """Return the module (parts, hidden) -> tokens."""


@register("shift_right")
class ShiftRight(MaskingSpec):
    """Position i receives what stood at i-1, the first a learned start vector: no position sees its own
    answer, and the last pixel is never an input (OpenAI's graph). `hidden` must be None.
    """

    def build(self, width: int) -> "Shift":
        return Shift(width)

    def label(self) -> str:
        return "inputs shifted right, start token"


@register("zero_out")
class ZeroOut(MaskingSpec):
    """What is hidden becomes a zero vector, before positions are added (iGPT section 2.2).

    That is the whole position, or of a position some of whose codes are hidden, the part of each such code.
    """

    masks_single_codes: ClassVar[bool] = True

    def build(self, width: int) -> "Zero":
        return Zero()

    def label(self) -> str:
        return "zero vector"


@register("mask_token")
class MaskToken(MaskingSpec):
    """A hidden position becomes a learned vector, before positions are added (ViT, appendix B.1.2)."""

    def build(self, width: int) -> "Token":
        return Token(width)

    def label(self) -> str:
        return "learned mask token"


@register("drop")
class Drop(MaskingSpec):
    """Hidden positions are not there: stem and blocks run over the visible ones alone (PatchFormer section
    2.1). What answers for a hidden position is norm(u) + norm'(X + Y) of the pooled vector u and the vectors
    of its row and column; without `norm_positions` it is norm(u) + X + Y, the paper's plain sum of them.
    """

    drops_tokens: ClassVar[bool] = True

    norm_positions: bool = True

    def build_pos_norm(self, norm: NormSpec, width: int) -> nn.Module:
        return norm.build(width) if self.norm_positions else nn.Identity()

    def build(self, width: int) -> "Dropped":
        return Dropped()

    def label(self) -> str:
        return "tokens dropped"


class Shift(nn.Module):
    drops: ClassVar = False

    def __init__(self, width: int):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(width))

    def forward(self, parts: Parts, hidden: Mask | None) -> Tokens:
        assert hidden is None, "a shifted sequence hides nothing else"
        tokens = whole(parts)
        start = self.start.to(tokens.dtype).expand(len(tokens), 1, -1)
        return torch.cat([start, tokens[:, :-1]], dim=1)


class Zero(nn.Module):
    drops: ClassVar = False

    def forward(self, parts: Parts, hidden: Mask | None) -> Tokens:
        if hidden is None:
            return whole(parts)
        if hidden.shape[-1] == 1:
            return whole(parts).masked_fill(hidden, 0.0)
        veils = hidden[..., None].unbind(2)
        return whole([part.masked_fill(veil, 0.0) for part, veil in zip(parts, veils, strict=True)])


class Token(nn.Module):
    drops: ClassVar = False

    def __init__(self, width: int):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(width))

    def forward(self, parts: Parts, hidden: Mask | None) -> Tokens:
        tokens = whole(parts)
        return tokens if hidden is None else torch.where(hidden, self.token.to(tokens.dtype), tokens)


class Dropped(nn.Module):
    """The backbone calls it where nothing is hidden, and leaves out itself what is."""

    drops: ClassVar = True

    def forward(self, parts: Parts, hidden: Mask | None) -> Tokens:
        assert hidden is None, "the backbone has left out what is hidden"
        return whole(parts)


def whole(parts: Parts) -> Tokens:
    """The sum of what is seen of each position."""
    return reduce(torch.add, parts)
