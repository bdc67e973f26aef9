"""What is hidden, counted: so many of so many positions, as far as a recipe's values tell."""

from collections.abc import Mapping
from typing import Any

from isopix.objectives.masks import BlockMask, exact_ratio_mask

Values = Mapping[str, Any]  # of a recipe, by path

ANYWHERE = "single ones, anywhere"


def in_blocks(values: Values) -> dict[str, str]:
    """How many positions a mask of blocks hides, and where; nothing of other masks, or of impossible ones."""
    total, wanted = _positions(values), values.get("objective.mask.exact_count")
    if values.get("objective.mask.kind") != "block" or not total:
        return {}
    try:
        side = int(values["objective.mask.side"])
        mask = BlockMask(ratio=float(values["objective.mask.ratio"]), side=side, exact_count=wanted)
        share = mask.expected_fraction(total, 1)
    except (LookupError, ValueError, TypeError, ZeroDivisionError):
        return {}
    square = f"in squares of {side} × {side}"
    return {"hidden": _of(share, total), "where": ANYWHERE if wanted or side == 1 else square}


def single(share: float, values: Values) -> str:
    """What hides such a share of single positions: `6 of 64 positions (9.4 %) are hidden, ...`."""
    total = _positions(values)
    try:
        told = _of(exact_ratio_mask(share, total or 0).expected_fraction(total or 0, 1), total or 0)
    except ValueError:
        told = f"{share:.1%} of all positions are hidden"
    return f"{told}, {ANYWHERE}"


def _of(share: float, total: int) -> str:
    return f"{round(share * total):,} of {total:,} positions ({share:.1%}) are hidden"


def _positions(values: Values) -> int | None:
    """Pixels, or patches; None where the values tell no such number."""
    sides = [values.get(path, 1) for path in ("data.rows", "data.cols", "codec.patch")]
    if not all(isinstance(side, int) and side > 0 for side in sides):
        return None
    rows, cols, cell = sides
    return (rows // cell) * (cols // cell)
