"""Autoregressive objective: name every code from those before it in raster order."""

import torch

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Images, PositionIndices, Tokens
from isopix.model.likelihood import Decoder
from isopix.model.masking import ShiftRight
from isopix.objectives.base import Loss, ObjectiveSpec, Problem, nll, pose


@register("autoregressive")
class Autoregressive(ObjectiveSpec):
    """L_AR = E[-ln p(x)], p(x) = product over i of p(x_i | x_1 .. x_i-1): mean over all positions (iGPT
    section 2.1).
    """

    @property
    def causal(self) -> bool:
        return True

    @property
    def paints(self) -> bool:
        return True

    @property
    def corruption(self) -> ShiftRight:
        return ShiftRight()

    def decoded(self, positions: int, codes: int) -> float:
        return 1.0

    def prepare(self, images: Images, codec: Codec, generator: torch.Generator) -> Problem:
        """Nothing is drawn: every position of every image is graded."""
        answers = codec.encode(images)
        return pose(images, None, answers, torch.ones_like(answers[..., :1], dtype=torch.bool))

    def loss(
        self, tokens: Tokens, problem: Problem, head: Decoder, places: PositionIndices | None = None
    ) -> Loss:
        return nll(tokens, problem, head, places=places)

    def nats(
        self, tokens: Tokens, problem: Problem, head: Decoder, places: PositionIndices | None = None
    ) -> Loss:
        return self.loss(tokens, problem, head, places)

    def label(self) -> str:
        return "autoregressive"
