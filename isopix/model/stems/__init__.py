"""Stems: an image to the vectors that make up each position, which sees its own pixels only."""

from isopix.model.stems.codes import Codes
from isopix.model.stems.patches import ConvolvedPatches, Patches
from isopix.model.stems.resnet import ResNet
from isopix.model.stems.values import Continuous, Fourier

__all__ = ["Codes", "Continuous", "ConvolvedPatches", "Fourier", "Patches", "ResNet", "Stem"]

Stem = Codes | Fourier | Continuous | Patches | ConvolvedPatches | ResNet
