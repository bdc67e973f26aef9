"""Isotropic blocks: every block maps tokens to tokens of the same shape.

A new block is one file with a registered `BlockSpec` and a `Block`, which declares what else it can do.
"""

from isopix.model.blocks.base import Block, BlockSpec
from isopix.model.blocks.convolution import ConvolutionSpec
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.blocks.transformer import AxialSpec, TransformerSpec

__all__ = ["AxialSpec", "Block", "BlockSpec", "ConvolutionSpec", "MixerSpec", "TransformerSpec"]
