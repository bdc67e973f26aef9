"""Names of the parameters of Vision Transformers, in `transformers` and in timm."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from isopix.interop.name_tables import (
    BACKBONE,
    WeightMapping,
    kernel_to_matrix,
    renamed,
    stacked,
    with_class_position,
)

ENDS = ("weight", "bias")
TOKEN, TABLE = "backbone.cls_token", "backbone.positions.table"
PATCHES = "backbone.stem.project"


class Naming(NamedTuple):
    """How a library names a Vision Transformer.

    `prefix` precedes all names of some files but those of the class head, and `skipped` has patterns of
    tensors that are not imported, with the reason. `aliases` rewrite names of other versions of the library.
    """

    library: str
    prefix: str
    head: str
    skipped: tuple[tuple[str, str], ...]
    aliases: tuple[tuple[str, str], ...] = ()

    def canonical(self, name: str) -> str:
        """Return a stored name without the prefix, as the table has it."""
        for pattern, replacement in self.aliases:
            name = re.sub(pattern, replacement, name)
        return name.removeprefix(self.prefix)

    def skip_reason(self, name: str) -> str:
        """Return why a tensor is not imported, by its canonical name; an empty string if it is."""
        return next((reason for pattern, reason in self.skipped if re.fullmatch(pattern, name)), "")


POOLER = (r"pooler\.dense\.(weight|bias)", "pooler")
MASK_TOKEN = (r"embeddings\.mask_token", "mask token")
DECODER = (r"decoder\..*", "decoder of pixels")
# `transformers` 5 has other names in memory than in files.
IN_MEMORY = (
    (r"(^|\.)(decoder_)?layers\.(\d+)\.", r"\1\2encoder.layer.\3."),
    (r"attention\.q_proj", "attention.attention.query"),
    (r"attention\.k_proj", "attention.attention.key"),
    (r"attention\.v_proj", "attention.attention.value"),
    (r"attention\.o_proj", "attention.output.dense"),
    (r"mlp\.fc1", "intermediate.dense"),
    (r"mlp\.fc2", "output.dense"),
)
HUGGING_FACE_VIT = Naming("transformers", "vit.", "classifier", (POOLER, MASK_TOKEN, DECODER), IN_MEMORY)
TIMM = Naming("timm", "", "head", ())


def huggingface_table(patch_size: int, *, qkv_bias: bool) -> tuple[WeightMapping, ...]:
    """Return the mappings of ViTModel and ViTMAEModel, without the prefix `vit.`."""
    layer, patches = "encoder.layer.{}", "embeddings.patch_embeddings.projection"
    return (
        with_class_position(("embeddings.cls_token", "embeddings.position_embeddings"), (TOKEN, TABLE)),
        kernel_to_matrix(f"{patches}.weight", f"{PATCHES}.weight", patch_size),
        renamed(f"{patches}.bias", f"{PATCHES}.bias"),
        *_pairs(f"{layer}.layernorm_before", f"{BACKBONE}.norm1"),
        *(
            stacked(
                tuple(f"{layer}.attention.attention.{part}.{end}" for part in ("query", "key", "value")),
                f"{BACKBONE}.attention.qkv.{end}",
            )
            for end in ENDS[: 1 + qkv_bias]
        ),
        *_pairs(f"{layer}.attention.output.dense", f"{BACKBONE}.attention.out"),
        *_pairs(f"{layer}.layernorm_after", f"{BACKBONE}.norm2"),
        *_pairs(f"{layer}.intermediate.dense", f"{BACKBONE}.mlp.up"),
        *_pairs(f"{layer}.output.dense", f"{BACKBONE}.mlp.down"),
        *_pairs("layernorm", "backbone.norm"),
    )


def timm_table(patch_size: int, *, qkv_bias: bool) -> tuple[WeightMapping, ...]:
    """Return the mappings of timm's VisionTransformer with a class token."""
    return (
        with_class_position(("cls_token", "pos_embed"), (TOKEN, TABLE)),
        kernel_to_matrix("patch_embed.proj.weight", f"{PATCHES}.weight", patch_size),
        renamed("patch_embed.proj.bias", f"{PATCHES}.bias"),
        *_pairs("blocks.{}.norm1", f"{BACKBONE}.norm1"),
        *_pairs("blocks.{}.attn.qkv", f"{BACKBONE}.attention.qkv", ENDS[: 1 + qkv_bias]),
        *_pairs("blocks.{}.attn.proj", f"{BACKBONE}.attention.out"),
        *_pairs("blocks.{}.norm2", f"{BACKBONE}.norm2"),
        *_pairs("blocks.{}.mlp.fc1", f"{BACKBONE}.mlp.up"),
        *_pairs("blocks.{}.mlp.fc2", f"{BACKBONE}.mlp.down"),
        *_pairs("norm", "backbone.norm"),
    )


def stored_names(stored: Iterable[str], naming: Naming) -> Mapping[str, str]:
    """Return the stored name of each canonical one. Raises ValueError for two that are the same."""
    names: dict[str, str] = {}
    for name in stored:
        known = naming.canonical(name)
        if known in names:
            raise ValueError(f"tensors '{names[known]}' and '{name}' are the same")
        names[known] = name
    return names


def _pairs(source: str, target: str, ends: tuple[str, ...] = ENDS) -> tuple[WeightMapping, ...]:
    return tuple(renamed(f"{source}.{end}", f"{target}.{end}") for end in ends)
