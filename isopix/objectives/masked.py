"""Masked objective: name the codes of hidden positions from all that is left (BERT)."""

from dataclasses import field
from typing import Literal

import torch
from torch import nn

from isopix.codecs.base import Codec
from isopix.core.config import spec
from isopix.core.types import Images, Tokens
from isopix.model.masking import ZeroOut
from isopix.objectives.base import Loss, Problem, nll, pose
from isopix.objectives.masks import Independent, Mask, bound


@spec
class Masked:
    """L_BERT = E over masks M of the mean over i in M of -ln p(x_i | x outside M) (iGPT section 2.1).

    The paper writes a sum over M; the released code, and we, take the mean within an image, then over images.
    """

    kind: Literal["masked"] = "masked"
    mask: Mask = field(default_factory=Independent)

    @property
    def causal(self) -> bool:
        return False

    @property
    def masking(self) -> ZeroOut:
        return ZeroOut()

    def decoded(self, codes: int) -> float:
        return self.mask.touched(codes)

    def prepare(self, images: Images, codec: Codec, generator: torch.Generator) -> Problem:
        """Hide and grade the same codes; an image with nothing hidden does not count."""
        hidden = self.mask.draw(len(images), codec.grid, codec.codes, generator).to(images.device)
        return pose(images, hidden, codec.encode(images), hidden)

    def loss(self, tokens: Tokens, problem: Problem, head: nn.Module) -> Loss:
        positions = problem.answers[..., 0].numel()
        return nll(tokens, problem, head, bound(positions, self.decoded(problem.answers.shape[-1])))
