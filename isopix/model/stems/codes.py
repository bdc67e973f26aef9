"""Codes stem: one table of vectors for each code of a position, summed."""

from typing import Literal

from torch import nn

from isopix.codecs.base import Codec
from isopix.core.config import spec
from isopix.core.types import Images, Tokens


@spec
class Codes:
    """The codec's own codes are the input: iGPT's palette embedding with one code a position."""

    kind: Literal["codes"] = "codes"

    def build(self, codec: Codec, width: int) -> "CodeEmbedding":
        return CodeEmbedding(codec, width)


class CodeEmbedding(nn.Module):
    """tokens_i = sum over q of table_q[code_iq]."""

    def __init__(self, codec: Codec, width: int):
        super().__init__()
        self.codec = codec
        self.tables = nn.ModuleList(nn.Embedding(codec.levels, width) for _ in range(codec.codes))

    def forward(self, images: Images) -> Tokens:
        codes = self.codec.encode(images).unbind(-1)
        tokens = self.tables[0](codes[0])
        for table, code in zip(self.tables[1:], codes[1:], strict=True):
            tokens = tokens + table(code)
        return tokens


Stem = Codes
