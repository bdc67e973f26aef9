"""Images in every form: files, PIL images and arrays of any size become the pixels of the run's dataset."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from einops import rearrange
from PIL import Image

from isopix.core.types import Images
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.pretrained.model import PretrainedModel
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import noise, smooth
from tests.unit.pretrained.cases import CAUSAL, images, model

ROWS, COLS = 4, 7  # of the model
EXIF_ORIENTATION = 0x0112


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Pictures of all kinds, in a folder of their own."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    turned = Image.fromarray(smooth(30, 50))
    turned.getexif()[EXIF_ORIENTATION] = 6
    pictures: dict[str, Image.Image] = {
        "a.png": Image.fromarray(noise(9, 13)),
        "b.jpg": Image.fromarray(smooth(400, 300)),
        "c.png": Image.fromarray(noise(20, 10)[..., 0]),
        "d.png": Image.fromarray(np.dstack([noise(16, 16), noise(16, 16)[..., :1]])),
        "e.jpg": turned,
        "f.png": Image.fromarray(noise(12, 12)).quantize(8),
        "g.png": Image.fromarray(noise(ROWS, COLS)),
        "h.tiff": turned,
    }
    for name, picture in pictures.items():
        picture.save(folder / name, exif=picture.getexif())
    return sorted(folder.iterdir())


def pixels_of_dataset(files: list[Path], tmp_path: Path, **settings: Any) -> Images:
    config = DataConfig(source=str(files[0].parent), rows=ROWS, cols=COLS, holdout=0.0, **settings)
    return load_dataset(config, cache=tmp_path / "cache").train.images[:]


@pytest.mark.parametrize(
    "settings", [{}, {"crop": "squash"}, {"crop": "resized_center", "crop_fraction": 0.8}], ids=str
)
def test_files_become_the_pixels_of_the_dataset(
    files: list[Path], tmp_path: Path, settings: dict[str, Any]
) -> None:
    expected = pixels_of_dataset(files, tmp_path, **settings)
    recipe = CAUSAL.updated(data=replace(CAUSAL.data, **settings))
    found = model(recipe).preprocess(files)
    assert torch.equal(found, expected)
    assert torch.equal(model(recipe).preprocess([str(each) for each in files]), expected)
    assert torch.equal(model(recipe).preprocess([each.read_bytes() for each in files]), expected)


def test_pil_images_and_their_pixels_are_those_of_files(causal: PretrainedModel, files: list[Path]) -> None:
    """But for JPEGs that are decoded at a smaller size where the file is given, which are nearly the same."""
    expected, opened = causal.preprocess(files), [Image.open(each) for each in files]
    found = causal.preprocess(opened)
    for place, path in enumerate(files):
        if path.suffix in (".png", ".tiff"):
            assert torch.equal(found[place], expected[place])
        assert (found[place].float() - expected[place].float()).abs().mean() < 10
        assert torch.equal(causal.preprocess(opened[place])[0], found[place])
    rgb = [np.asarray(Image.open(files[place]).convert("RGB")) for place in (0, 2, 6)]
    assert torch.equal(causal.preprocess(rgb), expected[[0, 2, 6]])


def test_arrays_and_tensors_of_any_size(causal: PretrainedModel) -> None:
    pixels = noise(9, 13)
    [expected] = causal.preprocess(Image.fromarray(pixels))
    channels_first = torch.from_numpy(pixels).permute(2, 0, 1)
    forms = [pixels, pixels[None], [pixels], channels_first, channels_first[None], [channels_first]]
    forms += [pixels.transpose(2, 0, 1), np.dstack([pixels, np.full((9, 13), 255, np.uint8)])]
    for form in forms:
        assert torch.equal(causal.preprocess(form), expected[None])
    gray = pixels[..., 0]
    [expected] = causal.preprocess(Image.fromarray(gray))
    for form in (gray, gray[..., None], torch.from_numpy(gray)[None], [gray]):
        assert torch.equal(causal.preprocess(form), expected[None])


def test_where_both_orders_are_possible_tensors_have_channels_first(causal: PretrainedModel) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 20, 3), dtype=np.uint8)
    assert torch.equal(causal.preprocess(pixels), causal.preprocess(Image.fromarray(pixels)))
    first = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    assert torch.equal(causal.preprocess(torch.from_numpy(pixels)), causal.preprocess(first))


def test_arrays_of_the_models_size_are_taken_as_they_are() -> None:
    """Also where the run's images are cropped, and in a list with others; a file of that size is cropped."""
    cropped = model(CAUSAL.updated(data=replace(CAUSAL.data, crop_fraction=0.5)))
    pixels = noise(ROWS, COLS)
    expected = torch.from_numpy(pixels).permute(2, 0, 1)
    for form in (pixels, pixels[None], [pixels], expected, expected[None]):
        assert torch.equal(cropped.preprocess(form)[0], expected)
    mixed = cropped.preprocess([pixels, Image.fromarray(pixels), noise(8, 8)])
    assert mixed.shape == (3, 3, ROWS, COLS)
    assert torch.equal(mixed[0], expected)
    assert not torch.equal(mixed[1], expected)


def test_arrays_stand_for_their_images(pretrained: PretrainedModel) -> None:
    x = images(pretrained)
    for form in (x.numpy(), rearrange(x, "b c h w -> b h w c").numpy()):
        assert torch.equal(pretrained.preprocess(form), x)


TAKEN = "expected uint8 images [B 3 H W], [B H W 3], [3 H W], [H W 3] or [H W], PIL images, or files; "
REFUSED: dict[str, tuple[Any, str]] = {
    "floats": (
        torch.zeros(1, 3, 4, 7),
        f"{TAKEN}got torch.float32 of shape [1, 3, 4, 7]",
    ),
    "five channels": (torch.zeros(5, 9, 9, dtype=torch.uint8), "uint8 of shape [5, 9, 9]"),
    "codes": (torch.zeros(2, 28, dtype=torch.long), "int64 of shape [2, 28]"),
    "no rows": (np.zeros((0, 7, 3), np.uint8), "uint8 of shape [0, 7, 3]"),
    "16-bit samples": (
        Image.fromarray(np.full((9, 9), 200, np.uint16)),
        "no sample above 200 would be black; data.white=255",
    ),
    "32-bit samples": (Image.new("I", (9, 9), 200), "32-bit samples of unknown range"),
    "bytes": (b"no image", "the image cannot be read: not a JPEG"),
    "a missing file": (["missing.png"], "missing.png cannot be read: No such file or directory"),
    "a folder": (Path(), "cannot be read: . is not a regular file"),
    "no name": ("", "expected an array, a PIL image or a file for each image, got ''"),
}


@pytest.mark.parametrize(("given", "line"), REFUSED.values(), ids=list(REFUSED))
def test_anything_else_is_refused_with_what_is_taken(
    causal: PretrainedModel, unchecked: None, given: Any, line: str
) -> None:
    assert line in refusal(causal.nll, given)


def test_a_16_bit_file_keeps_its_high_byte(causal: PretrainedModel, tmp_path: Path) -> None:
    Image.fromarray(np.full((9, 9), 200 << 8, np.uint16)).save(tmp_path / "deep.png")
    with Image.open(tmp_path / "deep.png") as image:
        assert causal.preprocess(image).unique().tolist() == [200]
