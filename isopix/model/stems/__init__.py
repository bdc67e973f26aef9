"""Stems: images or codes to vectors for each position, which depend on the pixels of that position alone."""

from isopix.model.stems.base import Stem, StemSpec
from isopix.model.stems.patches import ConvPatchEmbedSpec, PatchEmbedSpec, ResNetPatchEmbedSpec
from isopix.model.stems.pixels import FourierPixelEmbeddingSpec, LinearPixelEmbeddingSpec, TokenEmbeddingSpec

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
