"""Heads: tokens to logits; zero-initialised, so that an untrained model is exactly uniform."""

import torch
from einops import rearrange
from torch import Tensor, nn

from isopix.codecs.base import Codec
from isopix.core.types import Logits, Tokens


def at_least_float32(logits: Tensor) -> Tensor:
    """No loss is taken of rounder numbers; a float64 reference keeps its own."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


class LinearHead(nn.Module):
    """One untied matrix [Q*K D] without bias (iGPT's `wtet`); logits are float32 or wider."""

    def __init__(self, codec: Codec, width: int):
        super().__init__()
        self.codes = codec.codes
        self.project = nn.Linear(width, codec.codes * codec.levels, bias=False)

    def forward(self, tokens: Tokens) -> Logits:
        return rearrange(at_least_float32(self.project(tokens)), "b n (q k) -> b n q k", q=self.codes)
