"""Objectives: images to training batches, and the loss of a network on them."""

from isopix.objectives.objectives import Autoregressive, Masked, NoObjective

__all__ = ["Autoregressive", "Masked", "NoObjective"]
