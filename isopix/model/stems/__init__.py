"""Stems: an image to the vectors that make up each position, which sees its own pixels only."""

from isopix.model.stems.codes import Codes
from isopix.model.stems.values import Continuous, Fourier

__all__ = ["Codes", "Continuous", "Fourier", "Stem"]

Stem = Codes | Fourier | Continuous
