"""Stems: an image to the vectors that make up each position, which sees its own pixels only."""

from isopix.model.stems.base import StemSpec
from isopix.model.stems.patch_embed import ConvolvedPatches, Patches
from isopix.model.stems.pixel_embedding import Continuous, Fourier
from isopix.model.stems.resnet import ResNet
from isopix.model.stems.token_embedding import Codes

__all__ = ["Codes", "Continuous", "ConvolvedPatches", "Fourier", "Patches", "ResNet", "StemSpec"]
