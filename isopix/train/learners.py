"""Learners: what the one training loop improves; a problem out of a batch, and a module that grades the
problem.
"""

from typing import Protocol, runtime_checkable

import torch
from torch import nn

from isopix.core.types import Images, Labels
from isopix.objectives.base import Problem
from isopix.objectives.network import Network


@runtime_checkable
class Learner(Protocol):
    """The loop's whole view of what it trains."""

    @property
    def module(self) -> nn.Module:
        """Holds the parameters; called with a problem, or a piece of one, it returns the loss."""

    def prepare(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Problem:
        """All that chance decides, for a whole batch at once."""


class Pretraining:
    """The network's own objective; labels are not looked at."""

    def __init__(self, network: Network):
        self.module = network

    def prepare(self, images: Images, labels: Labels | None, generator: torch.Generator) -> Problem:
        return self.module.prepare(images, generator)
