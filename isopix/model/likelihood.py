"""Decoding: what is made of tokens at the end; a decoder owns the distribution of codes that it gives."""

import abc

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.types import Codes, Logits, Tokens

Nats = Float[Tensor, "B N Q"]


class Decoder(nn.Module, abc.ABC):
    """Grades any codes by tokens, and names the likeliest; `forward` gives the numbers by which it does."""

    @abc.abstractmethod
    def grade(self, tokens: Tokens, answers: Codes, smoothing: float = 0.0) -> Nats:
        """-ln p(answer) of each code. With `smoothing` s it is against soft labels: 1 - s for the answer, and
        s shared by all K levels.
        """

    @abc.abstractmethod
    def likeliest(self, tokens: Tokens) -> Codes:
        """The likeliest code of each."""

    @abc.abstractmethod
    def logits(self, tokens: Tokens) -> Logits:
        """Logits of all K levels of each code. Raises ValueError where the distribution is none of levels."""


class Categorical(Decoder):
    """Each level has a chance of its own: `forward` gives their logits [B N Q K]."""

    def grade(self, tokens: Tokens, answers: Codes, smoothing: float = 0.0) -> Nats:
        logits = self.logits(tokens).flatten(0, 2)
        losses = F.cross_entropy(logits, answers.flatten(), reduction="none", label_smoothing=smoothing)
        return losses.reshape(answers.shape)

    def likeliest(self, tokens: Tokens) -> Codes:
        return self.logits(tokens).argmax(-1)

    def logits(self, tokens: Tokens) -> Logits:
        return self(tokens)


def at_least_float32(numbers: Tensor) -> Tensor:
    """No loss is taken of rounder numbers; a float64 reference keeps its own."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))
