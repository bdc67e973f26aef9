"""Flags against values computed by hand."""

import numpy as np
import pytest
from PIL import Image

from isopix.data.flags import find_flags

COLUMNS = np.arange(128)
ROWS = COLUMNS[:, None]
CHECKERS = (ROWS + COLUMNS) % 2


@pytest.mark.parametrize(
    ("levels", "flags"),
    [
        (100 + 0 * CHECKERS, {"blank": 0}),
        (100 + 3 * CHECKERS, {"blank": 1.5}),
        (np.where(ROWS < 1, 255, 60 * CHECKERS), {"dark": 60}),  # but for 0.8% of the pixels
        (np.where(ROWS < 2, 255, 60 * CHECKERS), {}),  # 1.6%
        (np.where(ROWS < 6, 0, 231 + 20 * CHECKERS), {"bright": 231}),  # 4.7%
        (np.where(ROWS < 7, 0, 231 + 20 * CHECKERS), {}),  # 5.5%
        (np.tile(COLUMNS // 3, (128, 1)), {"dark": 42}),  # of low sharpness, as all of low contrast
        (100 + 20 * CHECKERS, {}),
        # The Laplacian of a ramp is 0 but for 2 and -2 in the first and the last column: 2 * 4 / 128.
        (np.tile(2 * COLUMNS, (128, 1)), {"blurred": 0.06}),
        (np.repeat(100 + 20 * CHECKERS, 2, 1)[:40, :120], {}),
        (np.repeat(100 + 20 * CHECKERS, 2, 1)[:40, :121], {"elongated": 3.02}),
        ((100 + 20 * CHECKERS)[:32, :40], {"tiny": 32}),
        ((100 + 20 * CHECKERS)[:40, :31], {"tiny": 31}),
        ((100 + 20 * CHECKERS)[:33, :32], {}),
    ],
)
def test_flags_and_what_was_measured(levels: np.ndarray, flags: dict[str, float]) -> None:
    image = Image.fromarray(levels.astype(np.uint8)).convert("RGB")
    assert find_flags(image, image.size, (32, 33)) == flags
