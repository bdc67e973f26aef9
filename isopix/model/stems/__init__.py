"""Stems: images or codes to vectors for each position, which depend on the pixels of that position alone."""

from isopix.model.stems.base import Stem, StemSpec
from isopix.model.stems.patch_embed import ConvPatchEmbedSpec, PatchEmbedSpec, ResNetPatchEmbedSpec
from isopix.model.stems.pixel_embedding import FourierPixelEmbeddingSpec, LinearPixelEmbeddingSpec
from isopix.model.stems.token_embedding import TokenEmbeddingSpec

__all__ = [
    "ConvPatchEmbedSpec",
    "FourierPixelEmbeddingSpec",
    "LinearPixelEmbeddingSpec",
    "PatchEmbedSpec",
    "ResNetPatchEmbedSpec",
    "Stem",
    "StemSpec",
    "TokenEmbeddingSpec",
]
