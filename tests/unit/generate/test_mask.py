"""Masks of completions: what each text, array, file and part hides."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.codecs.patches import Bytes, MeanColorSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.generate.mask import MaskLike, completion_mask, hidden_pixels, nearest_visible_pixels
from isopix.objectives.masks import BlockMask, PerChannelMask

PIXELS = Bytes(Grid(6, 8), 1)


def picture(mask: MaskLike, codec: Codec = PIXELS, count: int = 1, seed: int = 0) -> list[str]:
    """Rows of the first image, `#` where hidden."""
    hidden = completion_mask(mask, codec, count, seed=seed)[0].any(-1)
    rows = hidden.view(codec.grid.rows, codec.grid.cols).tolist()
    return ["".join(".#"[hidden] for hidden in row) for row in rows]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("half", "........ ........ ........ ######## ######## ########"),
        ("rows:5", "........ ........ ........ ........ ........ ########"),
        ("rectangle:1,2,3,4", "........ ..####.. ..####.. ..####.. ........ ........"),
        ("rectangle:0.5,0.5,0.5,0.25", "........ ........ ........ ....##.. ....##.. ....##.."),
        ("rectangle:0.25,0.3,0.5,0.2", "........ ..##.... ..##.... ..##.... ..##.... ........"),
        ("rectangle", "........ ..####.. ..####.. ..####.. ..####.. ........"),
        ("rows:5+rectangle:0,7,1,1", ".......# ........ ........ ........ ........ ########"),
    ],
)
def test_a_text_names_what_is_hidden(mask: str, expected: str) -> None:
    assert picture(mask) == expected.split()


def test_random_masks_have_their_fraction_and_differ_between_images() -> None:
    found = completion_mask("random:0.75", PIXELS, 5, seed=1)
    assert found.sum((1, 2)).tolist() == [36] * 5
    assert len(found.flatten(1).unique(dim=0)) == 5
    assert torch.equal(completion_mask("random:0.75", PIXELS, 2, seed=1), found[:2])
    assert completion_mask("random", PIXELS, 1).sum() == 36


def test_registered_masks_are_named_with_their_settings() -> None:
    expected = completion_mask(BlockMask(ratio=0.5, side=2), PIXELS, 3, seed=4)
    assert torch.equal(completion_mask("block:ratio=0.5,side=2", PIXELS, 3, seed=4), expected)
    channels = completion_mask("per_channel:ratio=0.5", PIXELS, 3, seed=4)
    assert torch.equal(channels, completion_mask(PerChannelMask(ratio=0.5), PIXELS, 3, seed=4))
    assert channels.shape == (3, 48, 3)


def test_a_patch_is_hidden_if_any_of_its_pixels_is() -> None:
    codec = MeanColorSpec(patch_size=4).build(Grid(2, 3))
    assert picture("rectangle:3,4,1,1", codec) == [".#.", "..."]
    assert picture("rectangle:3,4,2,5", codec) == [".##", ".##"]
    assert picture("rows:1", codec) == ["...", "###"]
    hidden = completion_mask("rectangle:3,4,1,1", codec, 1)
    images = torch.zeros(1, 3, 8, 12, dtype=torch.uint8)
    expected = torch.zeros(1, 8, 12, dtype=torch.bool)
    expected[:, :4, 4:8] = True
    assert torch.equal(hidden_pixels(hidden, images), expected)


def array(*places: tuple[int, int], size: tuple[int, int] = (6, 8)) -> Tensor:
    mask = torch.zeros(size, dtype=torch.bool)
    for place in places:
        mask[place] = True
    return mask


@pytest.mark.parametrize("form", [torch.Tensor.numpy, torch.Tensor.clone], ids=["numpy", "torch"])
def test_an_array_is_a_mask_of_all_images_or_of_each(form) -> None:
    one = array((2, 3))
    assert picture(form(one)) == picture("rectangle:2,3,1,1")
    assert torch.equal(*completion_mask(form(one), PIXELS, 2))
    both = torch.stack([one, array((5, 7))])
    found = completion_mask(form(both), PIXELS, 2).view(2, 6, 8)
    assert torch.equal(found, both)


def test_a_larger_or_smaller_mask_hides_every_pixel_that_it_touches() -> None:
    assert picture(array((5, 7), size=(12, 16))) == picture("rectangle:2,3,1,1")
    assert picture(array((1, 1), size=(3, 4))) == picture("rectangle:2,2,2,2")
    wide = array((2, 5), size=(6, 12))  # its center of 6 x 8 begins at column 2
    assert picture(wide) == picture("rectangle:2,3,1,1")
    odd = array((6, 3), size=(9, 12))  # of 1.5 pixels each: row 6 is in row 4 alone, column 3 in column 2
    assert picture(odd) == picture("rectangle:4,2,1,1")
    assert picture(array((4, 4), size=(9, 12))) == picture("rectangle:2,2,2,2")


def saved(path: Path, pixels: np.ndarray) -> Path:
    Image.fromarray(pixels).save(path)
    return path


def test_a_file_hides_its_white_or_its_transparent_pixels(tmp_path: Path) -> None:
    hidden = array((2, 3), (4, 0)).numpy()
    gray = saved(tmp_path / "gray.png", np.where(hidden, 200, 100).astype(np.uint8))
    assert picture(str(gray)) == picture(torch.from_numpy(hidden))
    assert picture(gray) == picture(str(gray))
    opaque = np.stack([np.where(hidden, 255, 0)] * 3 + [np.full(hidden.shape, 255)], -1).astype(np.uint8)
    assert picture(saved(tmp_path / "opaque.png", opaque)) == picture(gray)
    erased = np.stack([np.full(hidden.shape, 250)] * 3 + [np.where(hidden, 0, 255)], -1).astype(np.uint8)
    assert picture(saved(tmp_path / "erased.png", erased)) == picture(gray)


UNKNOWN = "is neither a file nor a mask; allowed: half, rows:ROWS, rectangle:TOP,LEFT"
WRONG: dict[str, tuple[MaskLike, str]] = {
    "an unknown word": ("blob", UNKNOWN),
    "all rows": ("rows:6", r"mask rows:6 hides nothing \(image 0\)"),
    "beyond the picture": ("rectangle:0.5,0.5,0.6,0.5", "3, 4, 3.6, 4 pixels; it must lie inside"),
    "everything": ("rectangle:0,0,6,8", "hides every position; at least one must be visible"),
    "nothing": (torch.zeros(6, 8, dtype=torch.bool), r"mask array hides nothing \(image 0\)"),
    "floats": (torch.zeros(6, 8), r"mask is torch.float32 \[6, 8\]; allowed: bool"),
    "too many": (torch.ones(2, 6, 8, dtype=torch.bool), "2 masks for 1 image; allowed: 1 or 1"),
}


@pytest.mark.parametrize(("mask", "message"), WRONG.values(), ids=list(WRONG))
def test_a_wrong_mask_is_refused(mask: MaskLike, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        completion_mask(mask, PIXELS, 1)


def test_hidden_pixels_are_filled_with_the_nearest_visible_one_if_any() -> None:
    images = torch.randint(256, (2, 3, 7, 5), generator=generator(0, "images"), dtype=torch.uint8)
    hidden = torch.zeros(2, 7, 5, dtype=torch.bool)
    hidden[0, 3:], hidden[1] = True, True
    filled = nearest_visible_pixels(images, hidden)
    assert torch.equal(filled[0, :, 3:], images[0, :, 2:3].expand(-1, 4, -1))
    assert torch.equal(filled[0, :, :3], images[0, :, :3])
    assert torch.equal(filled[1], images[1])
