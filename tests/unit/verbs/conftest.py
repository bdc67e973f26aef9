"""The tiny runs of the tests of verbs."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve gray images of 8 x 8 pixels, from dark and smooth to noise, and a copy of the last."""
    random = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(12):
        pixels = (random.random((8, 8)) * 20 * number).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number:02d}.png")
    Image.fromarray(pixels).convert("RGB").save(tmp_path / "photos" / "copy.png")
    return tmp_path / "photos"
