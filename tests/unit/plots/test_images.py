"""Image grids show every pixel exactly, and masked pixels as dotted squares."""

import numpy as np
import pytest
import torch
from einops import rearrange
from numpy.typing import NDArray
from PIL import Image

from isopix.core.random import generator
from isopix.core.types import Images
from isopix.plots import images


def draw(count: int, rows: int = 4, cols: int = 4) -> Images:
    random = generator(0, "test.images")
    return torch.randint(256, (count, 3, rows, cols), generator=random, dtype=torch.uint8)


def pixels(grid: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(grid)


def crop(grid: Image.Image, left: int, top: int, side: int) -> NDArray[np.uint8]:
    return pixels(grid)[top : top + side, left : left + side]


def enlarged(image: torch.Tensor, scale: int) -> NDArray[np.uint8]:
    return rearrange(image, "c h w -> h w c").numpy().repeat(scale, 0).repeat(scale, 1)


def lower(drawn: Images, rows: int) -> torch.Tensor:
    """A mask of all but the first rows."""
    return (torch.arange(drawn.shape[2]) >= rows)[None, :, None].expand(len(drawn), -1, drawn.shape[3])


def last_row(grid: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The red levels of the last row of pixels, without frames and gutters."""
    row = grid[-1 - images.FRAME]
    framed = (row == [*images.FRAME_COLOR, 255]).all(-1)
    return row[(row[:, 3] == 255) & ~framed, 0]


def reconstructions(
    original: Images, mask: torch.Tensor, *levels: int, target: int | None = None, scale: int
) -> Image.Image:
    """The grid of predictions, and a target if given, of constant levels."""
    true = original if target is None else torch.full_like(original, target)
    predictions = {f"model {i}": torch.full_like(original, level) for i, level in enumerate(levels or [0])}
    return images.reconstruction_grid(original, mask, predictions, true, scale=scale)


def test_every_sample_is_enlarged_exactly() -> None:
    drawn = draw(6)
    grid = images.sample_grid(drawn, columns=3, scale=5)
    for i in range(6):
        left, top = (images.FRAME + number * (20 + 2 * images.FRAME) for number in (i % 3, i // 3))
        found = crop(grid, left, top, 20)
        assert (found[..., :3] == enlarged(drawn[i], 5)).all()
        assert (found[..., 3] == 255).all()


def test_every_image_has_a_frame_of_a_color_that_is_no_gray() -> None:
    grid = pixels(images.sample_grid(draw(4), columns=2, scale=3))
    between = slice(12 + images.FRAME, 12 + 3 * images.FRAME)
    for strip in (grid[: images.FRAME], grid[:, -images.FRAME :], grid[between], grid[:, between]):
        assert (strip == [*images.FRAME_COLOR, 255]).all()
    assert len(set(images.FRAME_COLOR)) == 3


def test_groups_are_apart_on_the_page() -> None:
    drawn = draw(1)
    grid = pixels(images.completion_grid(drawn, lower(drawn, 2), drawn[:, None], scale=8))
    first = 32 + 2 * images.FRAME
    assert (grid[:, first : first + images.GROUP_GUTTER, 3] == 0)[-32:].all()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 9, 16, 25, 30, 64])
def test_no_grid_is_wider_than_the_target_width(count: int) -> None:
    cells = images.sample_grid(draw(count)).width - 64 * 2 * images.FRAME
    assert cells <= images.TARGET_WIDTH


@pytest.mark.parametrize("count", [4, 6, 8, 9, 10, 12, 16, 20, 24, 25, 32, 36, 48, 64, 100])
def test_grids_of_common_sizes_are_complete(count: int) -> None:
    assert count % images._num_blocks(count, 1) == 0


def test_captions_do_not_overlap_images() -> None:
    originals, completed = draw(2), draw(2)
    small = pixels(images.completion_grid(originals, lower(originals, 2), completed[:, None], scale=30))
    side, frame = 4 * 30, images.FRAME
    last = small[-side - frame : -frame, -side - frame : -frame, :3]
    assert (last == enlarged(completed[1], 30)).all()


def test_completions_show_the_original_then_what_is_visible_then_each_completion() -> None:
    originals, completed = draw(1), draw(2)
    grid = images.completion_grid(originals, lower(originals, 3), completed[None], scale=8)
    top, side = grid.height - 32 - images.FRAME, 32 + 2 * images.FRAME
    apart = (0, 1, 2, 2)  # groups to the left
    lefts = [images.FRAME + i * side + apart[i] * images.GROUP_GUTTER for i in range(4)]
    original, given, first, second = (crop(grid, left, top, 32)[..., :3] for left in lefts)
    assert (given[:24] == enlarged(completed[0], 8)[:24]).all(), "as the network reads it, quantized"
    assert {tuple(p) for p in given[24:].reshape(-1, 3).tolist()} == {
        images.MASK_COLOR,
        images.MASK_DOT_COLOR,
    }
    assert (first == enlarged(completed[0], 8)).all()
    assert (second == enlarged(completed[1], 8)).all()
    third = 255 - originals
    more = images.completion_grid(
        originals, lower(originals, 3), completed[None], baselines={"x": third}, scale=8
    )
    assert more.width == grid.width + side + images.GROUP_GUTTER
    assert (crop(more, lefts[2], top, 32)[..., :3] == enlarged(third[0], 8)).all()
    assert (crop(more, lefts[3] + images.GROUP_GUTTER, top, 32)[..., :3] == enlarged(completed[0], 8)).all()
    assert (original == enlarged(originals[0], 8)).all()


def test_reconstructions_cover_masked_pixels_only() -> None:
    shown = draw(1, 2, 4)
    mask = torch.tensor([[[True, False, False, False], [False, False, True, False]]])
    grid = reconstructions(shown, mask, scale=6)
    top, left = grid.height - 12 - images.FRAME, 24 + 3 * images.FRAME + images.GROUP_GUTTER
    middle = pixels(grid)[top:, left : left + 24, :3]
    for position in range(8):
        row, col = 6 * (position // 4), 6 * (position % 4)
        corner = tuple(middle[row, col].tolist())
        expected = (
            images.MASK_COLOR
            if mask[0].flatten()[position]
            else tuple(shown[0, :, position // 4, position % 4].tolist())
        )
        assert corner == expected


def test_a_grid_of_no_images_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one image"):
        images.sample_grid(draw(0))


def test_predictions_of_several_models_are_side_by_side() -> None:
    shown = torch.full((2, 3, 4, 4), 10, dtype=torch.uint8)
    mask = torch.zeros(2, 4, 4, dtype=torch.bool)
    drawn = pixels(reconstructions(shown, mask, 20, 30, scale=8))
    last = last_row(drawn)
    assert last.tolist() == [level for level in (10, 10, 20, 30) for _ in range(32)] * (len(last) // 128)


def test_a_target_that_differs_from_the_original_is_last() -> None:
    original = torch.full((1, 3, 4, 4), 10, dtype=torch.uint8)
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    drawn = pixels(reconstructions(original, mask, 20, target=30, scale=8))
    last = last_row(drawn)
    assert last.tolist() == [level for level in (10, 10, 20, 30) for _ in range(32)]
