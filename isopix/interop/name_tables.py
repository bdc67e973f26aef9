"""Names of parameters in other libraries: which tensors become which of ours, and the layout of each."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

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


class Naming(NamedTuple):
    """How a library names the tensors of a model.

    `prefix` precedes all names of some files but those of the head, and `skipped` has patterns of tensors
    that are not imported, with reasons.
    """

    library: str
    prefix: str
    skipped: tuple[tuple[str, str], ...] = ()

    def stored_names(self, stored: Collection[str]) -> dict[str, str]:
        """Return the stored name of each one in the table. Raises ValueError for two that are the same."""
        names = {name.removeprefix(self.prefix): name for name in stored}
        if twice := {*stored} - {*names.values()}:
            raise ValueError(f"tensor {min(twice)!r:.100} is there with and without '{self.prefix}'")
        return names

    def skip_reason(self, name: str) -> str:
        return next((reason for pattern, reason in self.skipped if re.fullmatch(pattern, name)), "")


def expand_layers(table: Iterable[WeightMapping], depth: int) -> Iterator[WeightMapping]:
    """Yield every mapping of a network of `depth` layers: those of a layer once for each layer."""
    for mapping in table:
        for layer in range(depth if "{}" in mapping.source[0] else 1):
            source, target = (tuple(name.format(layer) for name in names) for names in mapping[:2])
            yield mapping._replace(source=source, target=target)


def to_source(mappings: Iterable[WeightMapping], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return our tensors in the names and layouts of another library, mostly as views."""
    found: dict[str, Tensor] = {}
    for mapping in mappings:
        tensors = mapping.to_source(tuple(own[name] for name in mapping.target))
        found |= zip(mapping.source, tensors, strict=True)
    return found


def require_names(own: Collection[str], mappings: Iterable[WeightMapping], model: str) -> None:
    """Raise ValueError for a tensor that has no place in a model of `transformers`, or is missing there."""
    for name in sorted(set(own) ^ {name for mapping in mappings for name in mapping.target}):
        problem = "has no place in" if name in own else "is missing, but required by"
        raise ValueError(f"tensor '{name}' {problem} {model} of transformers")


def renamed(
    source: str | tuple[str, ...], target: str, pattern: str = "... -> ...", **sizes: int
) -> WeightMapping:
    """Map a tensor, or the rows of several of equal shape in the order given, to one of another layout.

    `pattern` is that of each, as einops writes it; `sizes` are those of the axes that it flattens.
    """
    names = (source,) if isinstance(source, str) else source
    before, after = pattern.split(" -> ")

    def to_target(tensors: Tensors) -> Tensors:
        return (torch.cat([rearrange(tensor, pattern, **sizes) for tensor in tensors]),)

    def to_source(tensors: Tensors) -> Tensors:
        parts = tensors[0].chunk(len(names))
        return tuple(rearrange(part, f"{after} -> {before}", **sizes) for part in parts)

    return WeightMapping(names, (target,), to_target, to_source)


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


def pairs(source: str, target: str, ends: tuple[str, ...] = ("weight", "bias")) -> tuple[WeightMapping, ...]:
    """Map the weight and the bias of a layer."""
    return tuple(renamed(f"{source}.{end}", f"{target}.{end}") for end in ends)


KERNEL = "d c p q -> d (c p q)"  # of a convolution of stride p and q, to a matrix of flattened patches
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
    renamed("h.{}.attn.c_attn.weight", f"{BLOCK}.attention.qkv.weight", "i o -> o i"),
    renamed("h.{}.attn.c_proj.weight", f"{BLOCK}.attention.out.weight", "i o -> o i"),
    renamed("h.{}.ln_2.weight", f"{BLOCK}.norm2.weight"),
    renamed("h.{}.mlp.c_fc.weight", f"{BLOCK}.mlp.up.weight", "i o -> o i"),
    renamed("h.{}.mlp.c_proj.weight", f"{BLOCK}.mlp.down.weight", "i o -> o i"),
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
        renamed(projections, f"{BLOCK}.attention.qkv.weight", "h e d -> (h e) d", h=heads),
        renamed("h{}/attn/c_proj", f"{BLOCK}.attention.out.weight", "h e d -> d (h e)", h=heads),
        renamed("h{}/ln_2/g", f"{BLOCK}.norm2.weight"),
        renamed("h{}/mlp/c_fc/w", f"{BLOCK}.mlp.up.weight", "i o -> o i"),
        renamed("h{}/mlp/c_proj/w", f"{BLOCK}.mlp.down.weight", "i o -> o i"),
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
)
TIMM_NAMES = Naming("timm", "")


def vit_table(patch_size: int, *, qkv_bias: bool, head: bool) -> tuple[WeightMapping, ...]:
    """Return the mappings of ViTModel and ViTMAEModel of `transformers`, or with the head of classes."""
    layer, patches = "encoder.layer.{}", "embeddings.patch_embeddings.projection"
    parts = [f"{layer}.attention.attention.{part}" for part in ("query", "key", "value")]
    qkv = [
        renamed(tuple(f"{part}.{end}" for part in parts), f"{BLOCK}.attention.qkv.{end}")
        for end in ("weight", "bias")[: 1 + qkv_bias]
    ]
    return (
        with_class_position(("embeddings.cls_token", "embeddings.position_embeddings"), (TOKEN, TABLE)),
        renamed(f"{patches}.weight", f"{PATCHES}.weight", KERNEL, p=patch_size, q=patch_size),
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
        renamed("patch_embed.proj.weight", f"{PATCHES}.weight", KERNEL, p=patch_size, q=patch_size),
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
