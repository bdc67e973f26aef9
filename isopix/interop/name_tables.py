"""Tables of parameter names: which source tensors become which of ours, and the layout of each."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from isopix.interop.mmap_alloc import mmap_alloc
from isopix.model.mlp import Activation

Tensors = tuple[Tensor, ...]
# Activations of `transformers` by their names; several are the same function.
ACTIVATION_NAMES: dict[str, Activation] = {
    "quick_gelu": "quick_gelu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_python": "gelu",
    "gelu_python_tanh": "gelu_tanh",
}


class WeightMapping(NamedTuple):
    """Source tensors, the target tensors that they become, and both conversions; `{}` is the layer."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    to_target: Callable[[Tensors], Tensors]
    to_source: Callable[[Tensors], Tensors]

    def for_layer(self, layer: int) -> "WeightMapping":
        """Return the mapping with the layer's number in its names."""

        def numbered(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name.format(layer) for name in names)

        return self._replace(source=numbered(self.source), target=numbered(self.target))


class TensorReport(NamedTuple):
    """What became of a source tensor: the target tensors that hold it, or the rule by which it was skipped.

    `rounded` is its dtype if float32 cannot hold its values exactly.
    """

    source: str
    target: tuple[str, ...] = ()
    skipped: str = ""
    rounded: str = ""


def expand_layers(table: Iterable[WeightMapping], depth: int) -> Iterator[WeightMapping]:
    """Yield every mapping of a network of `depth` layers: those of a layer once for each layer."""
    for mapping in table:
        layered = any("{}" in name for name in mapping.source)
        yield from (mapping.for_layer(layer) for layer in range(depth)) if layered else (mapping,)


def renamed(source: str, target: str) -> WeightMapping:
    """Map one tensor to another of the same layout."""
    return WeightMapping((source,), (target,), _identity, _identity)


def transposed(source: str, target: str) -> WeightMapping:
    """Map a matrix [in out] to one of layout [out in]."""
    return WeightMapping((source,), (target,), _transpose, _transpose)


def kernel_to_matrix(source: str, target: str, patch_size: int) -> WeightMapping:
    """Map the kernel [D 3 p p] of a convolution of stride p to a matrix [D 3*p*p] of flattened patches."""

    def to_source(tensors: Tensors) -> Tensors:
        return tuple(
            rearrange(matrix, "d (c p q) -> d c p q", p=patch_size, q=patch_size) for matrix in tensors
        )

    return WeightMapping((source,), (target,), _flatten_kernels, to_source)


def stacked(source: tuple[str, ...], target: str) -> WeightMapping:
    """Map tensors of equal shape to one tensor of their rows, in the order given."""

    def to_source(tensors: Tensors) -> Tensors:
        (rows,) = tensors
        return rows.chunk(len(source))

    return WeightMapping(source, (target,), _concat, to_source)


def with_class_position(source: tuple[str, str], target: tuple[str, str]) -> WeightMapping:
    """Map a class token [1 1 D] and position embeddings [1 1+N D], the first of which is the class token's,
    to the sum of these two [D] and the table of the positions [N D]. Back, the first embedding is zero.
    """
    return WeightMapping(source, target, _add_class_position, _split_class_position)


def with_start_token(source: str, table: str, start: str) -> WeightMapping:
    """Map an embedding table whose last row is the start token (`transformers`) to two tensors."""
    return WeightMapping((source,), (table, start), _split_start, _append_start)


def heads_to_rows(source: tuple[str, ...], target: str, heads: int) -> WeightMapping:
    """Map projections [heads size D] into the heads to one matrix [... D], stacked in the order given."""

    def to_source(tensors: Tensors) -> Tensors:
        (matrix,) = tensors
        return rearrange(matrix, "(many h e) d -> many h e d", many=len(source), h=heads).unbind()

    return WeightMapping(source, (target,), _stack_heads, to_source)


def heads_to_columns(source: str, target: str, heads: int) -> WeightMapping:
    """Map a projection [heads size D] out of the heads to a matrix [D heads*size]."""

    def to_source(tensors: Tensors) -> Tensors:
        return tuple(rearrange(tensor, "d (h e) -> h e d", h=heads) for tensor in tensors)

    return WeightMapping((source,), (target,), _flatten_heads, to_source)


def _identity(tensors: Tensors) -> Tensors:
    return tensors


def _transpose(tensors: Tensors) -> Tensors:
    return tuple(rearrange(tensor, "one other -> other one") for tensor in tensors)


def _split_start(tensors: Tensors) -> Tensors:
    (table,) = tensors
    return table[:-1], table[-1]


def _flatten_kernels(tensors: Tensors) -> Tensors:
    return tuple(rearrange(kernel, "d c p q -> d (c p q)") for kernel in tensors)


def _concat(tensors: Tensors) -> Tensors:
    return (torch.cat(tensors),)


def _add_class_position(tensors: Tensors) -> Tensors:
    token, embeddings = tensors
    return (token + embeddings[:, :1])[0, 0], embeddings[0, 1:]


def _split_class_position(tensors: Tensors) -> Tensors:
    token, table = tensors
    return token[None, None], torch.cat([torch.zeros_like(token)[None], table])[None]


def _append_start(tensors: Tensors) -> Tensors:
    table, start = tensors
    return (torch.cat([table, start[None]]),)


def _stack_heads(tensors: Tensors) -> Tensors:
    parts = [rearrange(tensor, "h e d -> (h e) d") for tensor in tensors]
    shape = (sum(len(part) for part in parts), parts[0].shape[1])
    return (torch.cat(parts, out=mmap_alloc(shape, parts[0].dtype)),)


def _flatten_heads(tensors: Tensors) -> Tensors:
    return tuple(rearrange(tensor, "h e d -> d (h e)") for tensor in tensors)


BACKBONE = "backbone.blocks.{}"

HUGGING_FACE = (
    with_start_token("transformer.wte.weight", "backbone.stem.tables.0.weight", "backbone.masking.start"),
    renamed("transformer.wpe.weight", "backbone.positions.table"),
    renamed("transformer.h.{}.ln_1.weight", f"{BACKBONE}.norm1.weight"),
    transposed("transformer.h.{}.attn.c_attn.weight", f"{BACKBONE}.attention.qkv.weight"),
    transposed("transformer.h.{}.attn.c_proj.weight", f"{BACKBONE}.attention.out.weight"),
    renamed("transformer.h.{}.ln_2.weight", f"{BACKBONE}.norm2.weight"),
    transposed("transformer.h.{}.mlp.c_fc.weight", f"{BACKBONE}.mlp.up.weight"),
    transposed("transformer.h.{}.mlp.c_proj.weight", f"{BACKBONE}.mlp.down.weight"),
    renamed("transformer.ln_f.weight", "backbone.norm.weight"),
    renamed("lm_head.weight", "head.project.weight"),
)


# Only autoregressive checkpoints have it.
OPENAI_START = renamed("sos", "backbone.masking.start")


def openai_table(heads: int) -> tuple[WeightMapping, ...]:
    """Return the mappings of OpenAI's variables, without scope and start token; there are no biases."""
    return (
        renamed("wte", "backbone.stem.tables.0.weight"),
        renamed("wpe", "backbone.positions.table"),
        renamed("h{}/ln_1/g", f"{BACKBONE}.norm1.weight"),
        heads_to_rows(
            ("h{}/attn/q_proj", "h{}/attn/k_proj", "h{}/attn/v_proj"),
            f"{BACKBONE}.attention.qkv.weight",
            heads,
        ),
        heads_to_columns("h{}/attn/c_proj", f"{BACKBONE}.attention.out.weight", heads),
        renamed("h{}/ln_2/g", f"{BACKBONE}.norm2.weight"),
        transposed("h{}/mlp/c_fc/w", f"{BACKBONE}.mlp.up.weight"),
        transposed("h{}/mlp/c_proj/w", f"{BACKBONE}.mlp.down.weight"),
        renamed("ln_f/g", "backbone.norm.weight"),
        renamed("wtet", "head.project.weight"),
    )
