"""Heads: tokens to logits; zero-initialised, so that an untrained model is exactly uniform."""

from einops import rearrange
from torch import nn

from isopix.codecs.base import Codec
from isopix.core.types import Logits, Tokens


class LinearHead(nn.Module):
    """One untied matrix [Q*K D] without bias (iGPT's `wtet`); logits are float32 whatever the tokens are."""

    def __init__(self, codec: Codec, width: int):
        super().__init__()
        self.codes = codec.codes
        self.project = nn.Linear(width, codec.codes * codec.levels, bias=False)

    def forward(self, tokens: Tokens) -> Logits:
        return rearrange(self.project(tokens).float(), "b n (q k) -> b n q k", q=self.codes)
