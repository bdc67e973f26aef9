"""Isotropic blocks: every one maps tokens to tokens of the same shape.

A block is a spec, `build(grid, width, causal)`, and a module whose first norm is called `norm1` (the probes
read it). A block with a causal form also has `cache` and `step`, by which pictures are painted one position
at a time; one that can answer at some places without answering everywhere has `asked`, and `selects` to say
whether it can as it was built. A new block is one file with a registered spec and a module.
"""

from isopix.model.blocks.axial import Axial
from isopix.model.blocks.base import BlockSpec
from isopix.model.blocks.convolution import Convolution
from isopix.model.blocks.mixer import Mixer
from isopix.model.blocks.transformer import Transformer
from isopix.model.mlp import ACTIVATIONS, Activation, quick_gelu

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Axial",
    "BlockSpec",
    "Convolution",
    "Mixer",
    "Transformer",
    "quick_gelu",
]
