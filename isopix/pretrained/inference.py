"""Inference: how the methods of a model compute."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from isopix.core.device import Precision, autocast
from isopix.model.network import evaluation_mode


@contextmanager
def inference(model: nn.Module, precision: Precision) -> Iterator[None]:
    """Compute in evaluation mode, without gradients and in this precision, on the device of the model."""
    device = next(model.parameters()).device
    with evaluation_mode(model), torch.no_grad(), autocast(device, precision):
        yield
