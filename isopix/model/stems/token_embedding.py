"""Codes stem: one table of vectors for each code of a position, summed."""

from typing import Any

import torch
from torch import nn

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Images
from isopix.model.stems.base import Parts, StemSpec, Vectors


@register("codes")
class Codes(StemSpec):
    """The codec's own codes are the input: iGPT's palette embedding with one code a position, and with bytes
    pix2vec, a table of 256 vectors for each channel (inductive biases of small isotropic nets, section 3).
    """

    def build(self, codec: Codec, width: int) -> "CodeEmbedding":
        return CodeEmbedding(codec, width)

    def parts(self, codec: Codec) -> int:
        """How many vectors make up a position."""
        return codec.num_codes

    def flops(self, codec: Codec, width: int) -> int:
        """None: looking up is no arithmetic."""
        return 0

    def label(self) -> str:
        return "token embedding"


class CodeEmbedding(nn.Module):
    """parts_iq = table_q[code_iq]."""

    def __init__(self, codec: Codec, width: int):
        super().__init__()
        self.codec = codec
        self.tables: Any = nn.ModuleList(
            nn.Embedding(codec.vocab_size, width) for _ in range(codec.num_codes)
        )

    def vectors(self) -> Vectors:
        """What every level of every code is embedded as."""
        return torch.stack([table.weight for table in self.tables])

    def seen(self, images: Images) -> Images:
        """What the codes keep of them."""
        return self.codec.decode(self.codec.encode(images))

    def forward(self, images: Images) -> Parts:
        codes = self.codec.encode(images).unbind(-1)
        return [table(code) for table, code in zip(self.tables, codes, strict=True)]
