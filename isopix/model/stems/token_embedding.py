"""Token embedding: a table of vectors for each code of a position, summed."""

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from torch import nn

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Codes
from isopix.model.init import EMBEDDING, InitScheme, InitTable
from isopix.model.stems.base import Components, Stem, StemSpec, ValueTable


@register("token_embedding")
class TokenEmbeddingSpec(StemSpec):
    """The codec's codes as inputs: iGPT's palette embedding for one code per position; for bytes pix2vec, a
    table of 256 vectors for each channel (inductive biases of small isotropic nets, section 3.2).
    """

    def build(self, codec: Codec, width: int) -> "TokenEmbedding":
        return TokenEmbedding(codec, width)

    def num_components(self, codec: Codec) -> int:
        return codec.num_codes

    def flops_per_token(self, codec: Codec, width: int) -> int:
        return 0

    def init(self, scheme: InitScheme) -> InitTable:
        return {"tables.*": EMBEDDING[scheme]}


class TokenEmbedding(Stem):
    """components_iq = table_q[code_iq]."""

    reads_codes: ClassVar[bool] = True
    has_value_table: ClassVar[bool] = True

    def __init__(self, codec: Codec, width: int):
        super().__init__()
        tables = (nn.Embedding(codec.vocab_size, width) for _ in range(codec.num_codes))
        self.tables = cast("Sequence[nn.Embedding]", nn.ModuleList(tables))

    def value_table(self) -> ValueTable:
        return torch.stack([table.weight for table in self.tables])

    def forward(self, inputs: Codes) -> Components:
        return [table(codes) for table, codes in zip(self.tables, inputs.unbind(-1), strict=True)]
