"""Pictures show every pixel exactly, and what the model was not shown as a sign of its own."""

import numpy as np
import pytest
import torch
from einops import rearrange
from numpy.typing import NDArray
from PIL import Image

from isopix.core.random import generator
from isopix.core.types import Images, Mask
from isopix.generate.reconstruct import Reconstruction
from isopix.plots import images


def draw(count: int, rows: int = 4, cols: int = 4) -> Images:
    random = generator(0, "test.images")
    return torch.randint(256, (count, 3, rows, cols), generator=random, dtype=torch.uint8)


def pixels(picture: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(picture)


def cell(picture: Image.Image, left: int, top: int, side: int) -> NDArray[np.uint8]:
    return pixels(picture)[top : top + side, left : left + side]


def enlarged(image: torch.Tensor, scale: int) -> NDArray[np.uint8]:
    return rearrange(image, "c h w -> h w c").numpy().repeat(scale, 0).repeat(scale, 1)


def found(original: Images, hidden: Mask, *, answer: int = 0, target: int | None = None) -> Reconstruction:
    """Whose answers, and whose target if it is not the original, are all of one level."""
    true = original if target is None else torch.full_like(original, target)
    return Reconstruction(original, hidden, true, torch.full_like(original, answer), 0.5)


def test_every_sample_is_enlarged_without_a_change() -> None:
    drawn = draw(6)
    picture = images.samples(drawn, columns=3, scale=5)
    for i in range(6):
        left, top = (i % 3) * (20 + images.THIN), (i // 3) * (20 + images.THIN)
        found = cell(picture, left, top, 20)
        assert (found[..., :3] == enlarged(drawn[i], 5)).all()
        assert (found[..., 3] == 255).all()


def test_gutters_are_transparent() -> None:
    picture = pixels(images.samples(draw(4), columns=2, scale=3))
    assert (picture[12 : 12 + images.THIN, :, 3] == 0).all()
    assert (picture[:, 12 : 12 + images.THIN, 3] == 0).all()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 9, 16, 25, 30, 64])
def test_no_picture_is_wider_than_a_page(count: int) -> None:
    cells = images.samples(draw(count)).width - 64 * images.THIN
    assert cells <= images.WIDTH


@pytest.mark.parametrize("count", [4, 6, 8, 9, 10, 12, 16, 20, 24, 25, 32, 36, 48, 64, 100])
def test_walls_of_usual_numbers_have_no_gap(count: int) -> None:
    assert count % images._across(count, 1) == 0


def test_captions_do_not_touch_images() -> None:
    originals, completed = draw(2), draw(2)
    small = pixels(images.completions(originals, completed, rows=2, each=1, scale=30))
    side = 4 * 30
    assert (small[-side:, :side][:60, :, :3] == enlarged(originals[1], 30)[:60]).all()


def test_completions_show_given_rows_then_each_completion_then_the_original() -> None:
    originals, completed = draw(1), draw(2)
    picture = images.completions(originals, completed, rows=3, each=2, scale=8)
    top = picture.height - 32
    lefts = [0, 32 + images.WIDE, 64 + images.WIDE + images.THIN, 96 + 2 * images.WIDE + images.THIN]
    given, first, second, original = (cell(picture, left, top, 32)[..., :3] for left in lefts)
    assert (given[:24] == enlarged(originals[0], 8)[:24]).all()
    assert {tuple(p) for p in given[24:].reshape(-1, 3).tolist()} == {images.VEIL, images.DOT}
    assert (first == enlarged(completed[0], 8)).all()
    assert (second == enlarged(completed[1], 8)).all()
    assert (original == enlarged(originals[0], 8)).all()


def test_reconstructions_veil_the_hidden_pixels_and_no_others() -> None:
    shown = draw(1, 2, 4)
    hidden = torch.tensor([[True, False, False, False, False, False, True, False]])[..., None]
    picture = images.reconstructions(found(shown, hidden), scale=6)
    top, left = picture.height - 12, 24 + images.WIDE
    middle = pixels(picture)[top:, left : left + 24, :3]
    for place in range(8):
        row, col = 6 * (place // 4), 6 * (place % 4)
        corner = tuple(middle[row, col].tolist())
        expected = images.VEIL if hidden[0, place] else tuple(shown[0, :, place // 4, place % 4].tolist())
        assert corner == expected


def test_a_hidden_patch_is_veiled_whole() -> None:
    hidden = torch.tensor([[True, False, False, False]])[..., None]
    picture = images.reconstructions(found(draw(1), hidden), scale=3)
    top, left = picture.height - 12, 12 + images.WIDE
    assert tuple(pixels(picture)[top + 5, left + 5, :3].tolist()) == images.VEIL


def test_a_picture_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one image"):
        images.samples(draw(0))


def test_several_models_answers_stand_beside_what_they_were_shown() -> None:
    shown = torch.full((2, 3, 4, 4), 10, dtype=torch.uint8)
    hidden = torch.zeros(2, 16, 1, dtype=torch.bool)
    answers = {name: found(shown, hidden, answer=level) for name, level in (("one", 20), ("other", 30))}
    drawn = np.asarray(images.compared(answers, scale=8))
    last = drawn[-1, drawn[-1, :, 3] == 255, 0]
    assert last.tolist() == [level for level in (10, 10, 20, 30) for _ in range(32)] * (len(last) // 128)


def test_a_target_that_is_not_the_original_stands_last() -> None:
    original = torch.full((1, 3, 4, 4), 10, dtype=torch.uint8)
    hidden = torch.zeros(1, 16, 1, dtype=torch.bool)
    drawn = np.asarray(images.reconstructions(found(original, hidden, answer=20, target=30), scale=8))
    last = drawn[-1, drawn[-1, :, 3] == 255, 0]
    assert last.tolist() == [level for level in (10, 10, 20, 30) for _ in range(32)]
