"""Objectives: images to training batches, and the loss of a network on them."""

from isopix.objectives.autoregressive import Autoregressive
from isopix.objectives.masked import Masked
from isopix.objectives.none import NoObjective

__all__ = ["Autoregressive", "Masked", "NoObjective"]
