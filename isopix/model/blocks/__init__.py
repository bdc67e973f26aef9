"""Isotropic blocks: every block maps tokens to tokens of the same shape."""
