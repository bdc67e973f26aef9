"""Marks of the figures of a study: color is the block, or encoding in panels of one block; marker: encoding;
size of a point and dash of a line: depth; hollow: untrained.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from isopix.plots import style

BLOCK_COLORS = {
    "conv": style.COLORS[0],
    "mixer": style.COLORS[1],
    "transformer-1": style.COLORS[2],
    "transformer-4": style.COLORS[3],
    "transformer-1-nopos": style.COLORS[5],
}
ENCODING_COLORS = {"pix2vec": style.TEXT_COLOR, "fourier": "#E07B00", "continuous": "#2FA7BC"}
MARKERS = {"pix2vec": "o", "fourier": "^", "continuous": "s"}
DASHES: Mapping[int, Any] = {1: (0, (1, 1)), 3: (0, (4, 1.3)), 6: "-", 12: (0, (6, 1.2, 1, 1.2))}
DISPLAY_NAMES = {
    "conv": "convolution",
    "transformer-1": "transformer, 1 head",
    "transformer-4": "transformer, 4 heads",
    "transformer-1-nopos": "transformer, no positions",
    "fourier": "Fourier",
    "mean": "mean pool",
    "grid4": "4 × 4 pool",
    "raw pixels, PCA": "PCA",
}


def display_name(name: str) -> str:
    """Return the display name of a block, an encoding or a pool."""
    return DISPLAY_NAMES.get(name, name)


def block_color(block: str) -> str:
    """Return the color of a block, the same in all figures."""
    return BLOCK_COLORS.get(block, style.TEXT_COLOR)


def depth_text(depth: int) -> str:
    """Return a depth as `3 blocks`."""
    return f"{depth} block{'s' * (depth != 1)}"


def marker_size(depth: int) -> float:
    """Return the size of the points of a depth."""
    return 2 + 2 * depth**0.5


def marker_look(encoding: str, color: str, *, hollow: bool = False) -> dict[str, Any]:
    """Return the look of a marker of an encoding; hollow is untrained."""
    face, edge = (style.BACKGROUND, color) if hollow else (color, style.BACKGROUND)
    look = {"color": color, "markerfacecolor": face, "markeredgecolor": edge}
    return {**look, "marker": MARKERS.get(encoding, "D"), "markeredgewidth": 0.9 if hollow else 0.5}


def ordered(names: Iterable[str], order: Iterable[str]) -> list[str]:
    """Return each name once, known ones in this order."""
    known, found = list(order), dict.fromkeys(names)
    return sorted(found, key=lambda name: known.index(name) if name in known else len(known))


def block_order(blocks: Iterable[str]) -> list[str]:
    """Return each block once, in the order of all figures: convolution, mixer, transformers."""
    return ordered(blocks, BLOCK_COLORS)
