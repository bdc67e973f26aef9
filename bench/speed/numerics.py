"""Checks before timing: two sides that are to do the same work must give the same numbers."""

import math

from torch import Tensor

from isopix.core.device import Precision

# Relative differences of losses, and of logits and features from the largest of them.
TOLERANCES: dict[Precision, float] = {"fp32": 1e-4, "bf16": 1e-2}


class NumericsError(RuntimeError):
    """Two sides of a benchmark give different numbers."""


def require_close(what: str, found: Tensor, expected: Tensor, tolerance: float) -> str:
    """Return the largest difference, as a fraction of the largest expected magnitude, in a sentence.

    Raises NumericsError for another shape, for one above `tolerance`, and for numbers that are not finite.
    """
    if found.shape != expected.shape:
        raise NumericsError(f"{what}: shapes {tuple(found.shape)} and {tuple(expected.shape)} differ")
    scale = float(expected.abs().max())
    difference = float((found.to(expected) - expected).abs().max()) / scale if scale else math.nan
    if not difference <= tolerance:
        raise NumericsError(f"{what} differ by {difference:.1e} of the largest; allowed: {tolerance:.0e}")
    return f"{what} equal within {difference:.0e}"


def require_equal(what: str, found: Tensor, expected: Tensor, fraction: float = 1.0) -> str:
    """Return the fraction of equal codes in a sentence. Raises NumericsError if it is below `fraction`."""
    if found.shape != expected.shape:
        raise NumericsError(f"{what}: shapes {tuple(found.shape)} and {tuple(expected.shape)} differ")
    equal = float((found == expected.to(found.device)).float().mean())
    if equal < fraction:
        raise NumericsError(f"{what}: {equal:.2%} equal; at least {fraction:.2%} are required")
    return f"{what}: {equal:.2%} equal"


def require_loss(what: str, found: float, expected: float, tolerance: float) -> None:
    """Raise NumericsError if a loss differs by more than this fraction."""
    if not abs(found - expected) <= tolerance * abs(expected):
        raise NumericsError(f"{what}: loss {found:.5f} instead of {expected:.5f}; allowed: {tolerance:.0e}")
