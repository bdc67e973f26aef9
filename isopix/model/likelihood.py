"""Likelihood: the distribution of codes that a head predicts from tokens."""

import abc
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.types import Codes, Logits, Tokens

Nats = Float[Tensor, "B N Q"]


class Likelihood(nn.Module, abc.ABC):
    """Base of all heads: a distribution over codes at each position; `forward` returns its parameters."""

    if TYPE_CHECKING:

        def __call__(self, tokens: Tokens) -> Tensor: ...

    @abc.abstractmethod
    def nll(self, tokens: Tokens, targets: Codes, label_smoothing: float = 0.0) -> Nats:
        """Return -ln p(target) of each code. With `label_smoothing` s it is the cross-entropy with soft
        labels: 1 - s for the target, and s shared by all K values.
        """

    @abc.abstractmethod
    def mode(self, tokens: Tokens) -> Codes:
        """Return the most likely value of each code."""

    @abc.abstractmethod
    def logits(self, tokens: Tokens) -> Logits:
        """Return the logits of all K values of each code. Raises ValueError for a distribution without."""


class Categorical(Likelihood):
    """A softmax over the K values of each code: `forward` returns logits [B N Q K]."""

    def nll(self, tokens: Tokens, targets: Codes, label_smoothing: float = 0.0) -> Nats:
        logits = self.logits(tokens).flatten(0, 2)
        losses = F.cross_entropy(logits, targets.flatten(), reduction="none", label_smoothing=label_smoothing)
        return losses.reshape(targets.shape)

    def mode(self, tokens: Tokens) -> Codes:
        return self.logits(tokens).argmax(-1)

    def logits(self, tokens: Tokens) -> Logits:
        return self(tokens)


def at_least_float32(values: Tensor) -> Tensor:
    """Convert to float32, in which losses are computed; float64 stays as it is."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
