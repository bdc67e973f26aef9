"""Tables of names: which of their tensors are which of ours, and the layout of each."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

Tensors = tuple[Tensor, ...]


class Row(NamedTuple):
    """Tensors of theirs that make up tensors of ours, and the way there and back; `{}` is the layer."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    read: Callable[[Tensors], Tensors]  # theirs to ours
    write: Callable[[Tensors], Tensors]  # ours to theirs

    def of_layer(self, layer: int) -> "Row":
        """The same row with the layer's number in its names."""

        def named(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name.format(layer) for name in names)

        return self._replace(theirs=named(self.theirs), ours=named(self.ours))


class Account(NamedTuple):
    """What became of one of their tensors: ours that it went into, or the rule by which it was left out."""

    theirs: str
    ours: tuple[str, ...] = ()
    skipped: str = ""


def rows(table: Iterable[Row], depth: int) -> Iterator[Row]:
    """Every row of a network: one that speaks of a layer once for each of `depth` layers."""
    for row in table:
        layered = any("{}" in name for name in row.theirs)
        yield from (row.of_layer(layer) for layer in range(depth)) if layered else (row,)


def same(theirs: str, ours: str) -> Row:
    """One tensor in the same layout."""
    return Row((theirs,), (ours,), _as_it_is, _as_it_is)


def turned(theirs: str, ours: str) -> Row:
    """A matrix [in out] of theirs, which ours keeps as [out in]."""
    return Row((theirs,), (ours,), _turn, _turn)


def with_start(theirs: str, table: str, start: str) -> Row:
    """A table whose last row is the start vector, which ours keeps apart (Hugging Face: id K is sos)."""
    return Row((theirs,), (table, start), _part, _join)


def _as_it_is(tensors: Tensors) -> Tensors:
    return tensors


def _turn(tensors: Tensors) -> Tensors:
    return tuple(rearrange(tensor, "one other -> other one") for tensor in tensors)


def _part(tensors: Tensors) -> Tensors:
    (table,) = tensors
    return table[:-1], table[-1]


def _join(tensors: Tensors) -> Tensors:
    table, start = tensors
    return (torch.cat([table, start[None]]),)


BACKBONE = "backbone.blocks.{}"

HUGGING_FACE = (
    with_start("transformer.wte.weight", "backbone.stem.tables.0.weight", "backbone.masking.start"),
    same("transformer.wpe.weight", "backbone.positions.table"),
    same("transformer.h.{}.ln_1.weight", f"{BACKBONE}.norm1.weight"),
    turned("transformer.h.{}.attn.c_attn.weight", f"{BACKBONE}.attention.qkv.weight"),
    turned("transformer.h.{}.attn.c_proj.weight", f"{BACKBONE}.attention.out.weight"),
    same("transformer.h.{}.ln_2.weight", f"{BACKBONE}.norm2.weight"),
    turned("transformer.h.{}.mlp.c_fc.weight", f"{BACKBONE}.mlp.up.weight"),
    turned("transformer.h.{}.mlp.c_proj.weight", f"{BACKBONE}.mlp.down.weight"),
    same("transformer.ln_f.weight", "backbone.norm.weight"),
    same("lm_head.weight", "head.project.weight"),
)
