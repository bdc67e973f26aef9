"""Losses of image files against the sizes of files that the test writes itself."""

import io
import math

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.codecs.patches import BytesSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.heads import LinearHeadSpec, RegressionHeadSpec
from isopix.objectives.baselines import LosslessFile, PNGFile, WebPFile
from isopix.objectives.objectives import Autoregressive

KINDS = [PNGFile, WebPFile]


def nats(kind: type[LosslessFile], images: torch.Tensor) -> float:
    """The loss of images of bytes, in batches of three."""
    codec = BytesSpec().fit(images, Grid(*images.shape[2:]), 0)
    baseline = kind(codec, LinearHeadSpec())
    for part in images.split(3):
        batch = Autoregressive().make_batch(part, codec, generator(0, "none"))
        baseline.update(batch.masked_codes(codec))
    return baseline.pop_nats()


def noise(count: int, side: int, levels: int) -> torch.Tensor:
    draw = generator(0, "noise")
    return torch.randint(levels, (count, 3, side, side), generator=draw).to(torch.uint8)


@pytest.mark.parametrize(
    ("kind", "settings"), [(PNGFile, {"optimize": True}), (WebPFile, {"lossless": True})]
)
def test_the_loss_is_the_size_of_one_file_of_all_images(
    kind: type[LosslessFile], settings: dict[str, bool]
) -> None:
    images = noise(4, 16, 256)
    rows = [np.concatenate([*images[start : start + 2].permute(0, 2, 3, 1).numpy()], 1) for start in (0, 2)]
    content = io.BytesIO()
    options = settings | ({"quality": 100} if kind is WebPFile else {})
    Image.fromarray(np.concatenate(rows)).save(content, format=kind.name.split()[0], **options)
    expected = 8 * len(content.getvalue()) * math.log(2) / images.numel()
    assert not kind.applies(BytesSpec().placeholder(Grid(4, 4)), RegressionHeadSpec())
    assert nats(kind, images) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_few_colors_has_a_palette(kind: type[LosslessFile]) -> None:
    """16 grays are 4 bits per pixel, a third of that per byte, and not three times as much."""
    grays = noise(20, 32, 16)[:, :1].expand(-1, 3, -1, -1).contiguous() * 16
    assert nats(kind, grays) == pytest.approx(4 * math.log(2) / 3, rel=0.1)
