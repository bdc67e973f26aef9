"""Squashed images against the image processors of Hugging Face."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.data.dataset import DataConfig, load_dataset

transformers = pytest.importorskip("transformers", reason="the reference is in isopix[bench]")


@pytest.mark.parametrize("name", ["ViTImageProcessorPil", "ImageGPTImageProcessorPil"])
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_squashed_pixels_are_those_of_the_image_processors(name: str, suffix: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    shapes = [(90, 70), (300, 40), (16, 16), (31, 200)]
    for number, shape in enumerate(shapes):
        picture = Image.fromarray(draw.integers(0, 256, (*shape, 3), dtype=np.uint8))
        picture.save(tmp_path / f"photos/{number}.{suffix}")
    config = DataConfig(
        source=str(tmp_path / "photos"), rows=16, cols=12, crop="squash", resample="bilinear", holdout=0.0
    )
    own = load_dataset(config, cache=tmp_path / "cache").train.images
    plain = {"do_rescale": False, "do_normalize": False}
    size = {"height": 16, "width": 12}
    processor = getattr(transformers, name)(size=size, do_color_quantize=False, **plain)
    pictures = [Image.open(path) for path in sorted((tmp_path / "photos").iterdir())]
    theirs = processor(pictures, return_tensors="pt").pixel_values
    assert torch.equal(own.float(), theirs.float())
