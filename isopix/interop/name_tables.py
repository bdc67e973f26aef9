"""Tables of names: which of their tensors are which of ours, and the layout of each."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from isopix.interop.mmap_alloc import scratch

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
    """What became of one of their tensors: ours that it went into, or the rule by which it was left out.

    `rounded` is its type where float32 cannot hold its numbers, and they were rounded.
    """

    theirs: str
    ours: tuple[str, ...] = ()
    skipped: str = ""
    rounded: str = ""


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


def heads_to_rows(theirs: tuple[str, ...], ours: str, heads: int) -> Row:
    """Matrices [heads size D] from the stream to heads, which ours keeps below each other in one [... D]."""

    def write(tensors: Tensors) -> Tensors:
        (matrix,) = tensors
        return rearrange(matrix, "(many h e) d -> many h e d", many=len(theirs), h=heads).unbind()

    return Row(theirs, (ours,), _stack, write)


def heads_to_columns(theirs: str, ours: str, heads: int) -> Row:
    """A matrix [heads size D] from heads back to the stream, which ours keeps as [D heads*size]."""

    def write(tensors: Tensors) -> Tensors:
        return tuple(rearrange(tensor, "d (h e) -> h e d", h=heads) for tensor in tensors)

    return Row((theirs,), (ours,), _lay, write)


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


def _stack(tensors: Tensors) -> Tensors:
    parts = [rearrange(tensor, "h e d -> (h e) d") for tensor in tensors]
    whole = (sum(len(part) for part in parts), parts[0].shape[1])
    return (torch.cat(parts, out=scratch(whole, parts[0].dtype)),)


def _lay(tensors: Tensors) -> Tensors:
    return tuple(rearrange(tensor, "h e d -> d (h e)") for tensor in tensors)


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


# Autoregressive models have it, the masked ones do not.
OPENAI_START = same("sos", "backbone.masking.start")


def openai(heads: int) -> tuple[Row, ...]:
    """Every variable of OpenAI's graph but the start vector, without the scope; all of it has no biases."""
    return (
        same("wte", "backbone.stem.tables.0.weight"),
        same("wpe", "backbone.positions.table"),
        same("h{}/ln_1/g", f"{BACKBONE}.norm1.weight"),
        heads_to_rows(
            ("h{}/attn/q_proj", "h{}/attn/k_proj", "h{}/attn/v_proj"),
            f"{BACKBONE}.attention.qkv.weight",
            heads,
        ),
        heads_to_columns("h{}/attn/c_proj", f"{BACKBONE}.attention.out.weight", heads),
        same("h{}/ln_2/g", f"{BACKBONE}.norm2.weight"),
        turned("h{}/mlp/c_fc/w", f"{BACKBONE}.mlp.up.weight"),
        turned("h{}/mlp/c_proj/w", f"{BACKBONE}.mlp.down.weight"),
        same("ln_f/g", "backbone.norm.weight"),
        same("wtet", "head.project.weight"),
    )
