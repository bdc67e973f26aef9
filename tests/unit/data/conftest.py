"""Small datasets on disk."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Draw = Callable[..., Path]


@pytest.fixture
def draw() -> Draw:
    """Writes a picture whose pixels follow from its seed: draw(path, seed=3, size=(9, 6), mode="L")."""

    def write(path: Path, seed: int = 0, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).convert(mode).save(path)
        return path

    return write


@pytest.fixture
def classes(tmp_path: Path, draw: Draw) -> Path:
    """20 images in each of the classes cat and dog."""
    for i in range(20):
        draw(tmp_path / "pets" / "cat" / f"{i:02}.png", seed=i)
        draw(tmp_path / "pets" / "dog" / f"{i:02}.png", seed=100 + i)
    return tmp_path / "pets"
