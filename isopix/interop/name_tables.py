"""Names of parameters in other libraries: which tensors become which of ours, and the layout of each."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from isopix.interop.weights import mmap_alloc
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
ZERO_BIAS = "zero bias"  # the rule by which biases are skipped; others are refused


class WeightMapping(NamedTuple):
    """Source tensors, the target tensors that they become, and both conversions; `{}` is the layer."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    to_target: Callable[[Tensors], Tensors]
    to_source: Callable[[Tensors], Tensors]

    def for_layer(self, layer: int) -> "WeightMapping":
        source, target = (tuple(name.format(layer) for name in names) for names in self[:2])
        return self._replace(source=source, target=target)


class Naming(NamedTuple):
    """How a library names the tensors of a model.

    `prefix` precedes all names of some files but those of the head, `skipped` has patterns of tensors that
    are not imported, with reasons, and `aliases` rewrite names of other versions of the library.
    """

    library: str
    prefix: str
    skipped: tuple[tuple[str, str], ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()

    def stored_names(self, stored: Iterable[str]) -> dict[str, str]:
        """Return the stored name of each one in the table. Raises ValueError for two that are the same."""
        names: dict[str, str] = {}
        for name in stored:
            known = name
            for pattern, replacement in self.aliases:
                known = re.sub(pattern, replacement, known)
            known = known.removeprefix(self.prefix)
            if known in names:
                raise ValueError(f"tensors {names[known]!r:.100} and {name!r:.100} are the same")
            names[known] = name
        return names

    def skip_reason(self, name: str) -> str:
        return next((reason for pattern, reason in self.skipped if re.fullmatch(pattern, name)), "")


class TensorReport(NamedTuple):
    """The target tensors of a source tensor, or the rule that skips it; its dtype if it was `rounded`."""

    source: str
    target: tuple[str, ...] = ()
    skipped: str = ""
    rounded: str = ""


def expand_layers(table: Iterable[WeightMapping], depth: int) -> Iterator[WeightMapping]:
    """Yield every mapping of a network of `depth` layers: those of a layer once for each layer."""
    for mapping in table:
        layered = any("{}" in name for name in mapping.source)
        yield from (mapping.for_layer(layer) for layer in range(depth)) if layered else (mapping,)


def to_source(mappings: Iterable[WeightMapping], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return our tensors in the names and layouts of another library, mostly as views."""
    found: dict[str, Tensor] = {}
    for mapping in mappings:
        found |= zip(
            mapping.source, mapping.to_source(tuple(own[name] for name in mapping.target)), strict=True
        )
    return found


def require_names(own: Collection[str], mappings: Iterable[WeightMapping], model: str) -> None:
    """Raise ValueError for a tensor that has no place in a model of `transformers`, or is missing there."""
    for name in sorted(set(own) ^ {name for mapping in mappings for name in mapping.target}):
        problem = "has no place in" if name in own else "is missing, but required by"
        raise ValueError(f"tensor '{name}' {problem} {model} of transformers")


def renamed(source: str, target: str) -> WeightMapping:
    """Map one tensor to another of the same layout."""
    return WeightMapping((source,), (target,), tuple, tuple)


def transposed(source: str, target: str) -> WeightMapping:
    """Map a matrix [in out] to one of layout [out in]."""

    def transpose(tensors: Tensors) -> Tensors:
        return tuple(tensor.T for tensor in tensors)

    return WeightMapping((source,), (target,), transpose, transpose)


def kernel_to_matrix(source: str, target: str, patch_size: int) -> WeightMapping:
    """Map the kernel [D 3 p p] of a convolution of stride p to a matrix [D 3*p*p] of flattened patches."""
    return WeightMapping(
        (source,),
        (target,),
        lambda tensors: (tensors[0].flatten(1),),
        lambda tensors: (rearrange(tensors[0], "d (c p q) -> d c p q", p=patch_size, q=patch_size),),
    )


def stacked(source: tuple[str, ...], target: str) -> WeightMapping:
    """Map tensors of equal shape to one tensor of their rows, in the order given."""
    return WeightMapping(
        source,
        (target,),
        lambda tensors: (torch.cat(tensors),),
        lambda tensors: tensors[0].chunk(len(source)),
    )


def with_class_position(source: tuple[str, str], target: tuple[str, str]) -> WeightMapping:
    """Map a class token [1 1 D] and positions [1 1+N D] to its sum with the first [D], and the others."""

    def to_target(tensors: Tensors) -> Tensors:
        token, embeddings = tensors
        return (token + embeddings[:, :1])[0, 0], embeddings[0, 1:]

    def to_source(tensors: Tensors) -> Tensors:
        token, table = tensors
        return token[None, None], torch.cat([torch.zeros_like(token)[None], table])[None]

    return WeightMapping(source, target, to_target, to_source)


def with_start_token(source: str, table: str, start: str) -> WeightMapping:
    """Map an embedding table whose last row is the start token (`transformers`) to two tensors."""
    return WeightMapping(
        (source,),
        (table, start),
        lambda tensors: (tensors[0][:-1], tensors[0][-1]),
        lambda tensors: (torch.cat([tensors[0], tensors[1][None]]),),
    )


def heads_to_rows(source: tuple[str, ...], target: str, heads: int) -> WeightMapping:
    """Map projections [heads size D] into the heads to one matrix [... D], stacked in the order given."""

    def to_target(tensors: Tensors) -> Tensors:
        parts = [tensor.flatten(0, 1) for tensor in tensors]
        shape = (sum(map(len, parts)), parts[0].shape[1])
        return (torch.cat(parts, out=mmap_alloc(shape, parts[0].dtype)),)

    def to_source(tensors: Tensors) -> Tensors:
        return rearrange(tensors[0], "(n h e) d -> n h e d", n=len(source), h=heads).unbind()

    return WeightMapping(source, (target,), to_target, to_source)


def heads_to_columns(source: str, target: str, heads: int) -> WeightMapping:
    """Map a projection [heads size D] out of the heads to a matrix [D heads*size]."""
    return WeightMapping(
        (source,),
        (target,),
        lambda tensors: (tensors[0].flatten(0, 1).T,),
        lambda tensors: (rearrange(tensors[0], "d (h e) -> h e d", h=heads),),
    )


def pairs(source: str, target: str, ends: tuple[str, ...] = ("weight", "bias")) -> tuple[WeightMapping, ...]:
    """Map the weight and the bias of a layer."""
    return tuple(renamed(f"{source}.{end}", f"{target}.{end}") for end in ends)


BLOCK = "backbone.blocks.{}"
TOKEN, TABLE, PATCHES = "backbone.cls_token", "backbone.positions.table", "backbone.stem.project"

IMAGEGPT_NAMES = Naming(
    "ImageGPT",
    "transformer.",
    (
        (r"h\.\d+\.(attn\.c_(attn|proj)|mlp\.c_(fc|proj))\.bias", ZERO_BIAS),
        (r"h\.\d+\.attn\.(bias|masked_bias)", "causal mask"),
    ),
)
IMAGEGPT = (
    with_start_token("wte.weight", "backbone.stem.tables.0.weight", "backbone.masking.start"),
    renamed("wpe.weight", TABLE),
    renamed("h.{}.ln_1.weight", f"{BLOCK}.norm1.weight"),
    transposed("h.{}.attn.c_attn.weight", f"{BLOCK}.attention.qkv.weight"),
    transposed("h.{}.attn.c_proj.weight", f"{BLOCK}.attention.out.weight"),
    renamed("h.{}.ln_2.weight", f"{BLOCK}.norm2.weight"),
    transposed("h.{}.mlp.c_fc.weight", f"{BLOCK}.mlp.up.weight"),
    transposed("h.{}.mlp.c_proj.weight", f"{BLOCK}.mlp.down.weight"),
    renamed("ln_f.weight", "backbone.norm.weight"),
    renamed("lm_head.weight", "head.project.weight"),
)
OPENAI_START = renamed("sos", "backbone.masking.start")  # only autoregressive checkpoints have it


def openai_table(heads: int) -> tuple[WeightMapping, ...]:
    """Return the mappings of OpenAI's variables, without scope and start token; there are no biases."""
    projections = ("h{}/attn/q_proj", "h{}/attn/k_proj", "h{}/attn/v_proj")
    return (
        renamed("wte", "backbone.stem.tables.0.weight"),
        renamed("wpe", TABLE),
        renamed("h{}/ln_1/g", f"{BLOCK}.norm1.weight"),
        heads_to_rows(projections, f"{BLOCK}.attention.qkv.weight", heads),
        heads_to_columns("h{}/attn/c_proj", f"{BLOCK}.attention.out.weight", heads),
        renamed("h{}/ln_2/g", f"{BLOCK}.norm2.weight"),
        transposed("h{}/mlp/c_fc/w", f"{BLOCK}.mlp.up.weight"),
        transposed("h{}/mlp/c_proj/w", f"{BLOCK}.mlp.down.weight"),
        renamed("ln_f/g", "backbone.norm.weight"),
        renamed("wtet", "head.project.weight"),
    )


VIT_NAMES = Naming(
    "transformers",
    "vit.",
    (
        (r"pooler\.dense\.(weight|bias)", "pooler"),
        (r"embeddings\.mask_token", "mask token"),
        (r"decoder\..*", "decoder of pixels"),
    ),
    aliases=(  # `transformers` 5 has other names in memory than in files
        (r"(^|\.)(decoder_)?layers\.(\d+)\.", r"\1\2encoder.layer.\3."),
        (r"attention\.q_proj", "attention.attention.query"),
        (r"attention\.k_proj", "attention.attention.key"),
        (r"attention\.v_proj", "attention.attention.value"),
        (r"attention\.o_proj", "attention.output.dense"),
        (r"mlp\.fc1", "intermediate.dense"),
        (r"mlp\.fc2", "output.dense"),
    ),
)
TIMM_NAMES = Naming("timm", "")


def vit_table(patch_size: int, *, qkv_bias: bool, head: bool) -> tuple[WeightMapping, ...]:
    """Return the mappings of ViTModel and ViTMAEModel of `transformers`, or with the head of classes."""
    layer, patches = "encoder.layer.{}", "embeddings.patch_embeddings.projection"
    parts = [f"{layer}.attention.attention.{part}" for part in ("query", "key", "value")]
    qkv = [
        stacked(tuple(f"{part}.{end}" for part in parts), f"{BLOCK}.attention.qkv.{end}")
        for end in ("weight", "bias")[: 1 + qkv_bias]
    ]
    return (
        with_class_position(("embeddings.cls_token", "embeddings.position_embeddings"), (TOKEN, TABLE)),
        kernel_to_matrix(f"{patches}.weight", f"{PATCHES}.weight", patch_size),
        renamed(f"{patches}.bias", f"{PATCHES}.bias"),
        *pairs(f"{layer}.layernorm_before", f"{BLOCK}.norm1"),
        *qkv,
        *pairs(f"{layer}.attention.output.dense", f"{BLOCK}.attention.out"),
        *pairs(f"{layer}.layernorm_after", f"{BLOCK}.norm2"),
        *pairs(f"{layer}.intermediate.dense", f"{BLOCK}.mlp.up"),
        *pairs(f"{layer}.output.dense", f"{BLOCK}.mlp.down"),
        *pairs("layernorm", "backbone.norm"),
        *(pairs("classifier", "classifier") if head else ()),
    )


def timm_table(patch_size: int, *, qkv_bias: bool, head: bool) -> tuple[WeightMapping, ...]:
    """Return the mappings of timm's VisionTransformer with a class token, or with the head of classes."""
    return (
        with_class_position(("cls_token", "pos_embed"), (TOKEN, TABLE)),
        kernel_to_matrix("patch_embed.proj.weight", f"{PATCHES}.weight", patch_size),
        renamed("patch_embed.proj.bias", f"{PATCHES}.bias"),
        *pairs("blocks.{}.norm1", f"{BLOCK}.norm1"),
        *pairs("blocks.{}.attn.qkv", f"{BLOCK}.attention.qkv", ("weight", "bias")[: 1 + qkv_bias]),
        *pairs("blocks.{}.attn.proj", f"{BLOCK}.attention.out"),
        *pairs("blocks.{}.norm2", f"{BLOCK}.norm2"),
        *pairs("blocks.{}.mlp.fc1", f"{BLOCK}.mlp.up"),
        *pairs("blocks.{}.mlp.fc2", f"{BLOCK}.mlp.down"),
        *pairs("norm", "backbone.norm"),
        *(pairs("head", "classifier") if head else ()),
    )
