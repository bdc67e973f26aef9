"""isopix: isotropic networks over pixels. Pre-train image models by predicting pixels, measure what they
learnt, show it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isopix.api.pretrained import Pretrained, load, publish, save

__version__ = "0.1.0"
EXPORTS = ("Pretrained", "load", "publish", "save")
__all__ = ["Pretrained", "__version__", "load", "publish", "save"]


def __getattr__(name: str) -> Any:
    """`isopix.load` and its like, fetched when first used: help must not wait for torch."""
    if name in EXPORTS:
        return getattr(importlib.import_module("isopix.api.pretrained"), name)
    raise AttributeError(f"module 'isopix' has no attribute '{name}'")
