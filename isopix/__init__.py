"""isopix: isotropic networks over pixels. Pre-train image models by predicting pixels, measure what they
learnt, show it.
"""

__version__ = "0.1.0"
