"""Grids and sheets show every pixel exactly, masked pixels as dotted squares, and surprise as brightness."""

import numpy as np
import pytest
import torch
from einops import rearrange
from numpy.typing import NDArray
from PIL import Image

from isopix.core.random import generator
from isopix.core.types import Images
from isopix.plots import images, sheets


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


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9, 30, 64])
def test_no_grid_is_wider_than_the_target_width(count: int) -> None:
    cells = images.sample_grid(draw(count)).width - 64 * 2 * images.FRAME
    assert cells <= images.TARGET_WIDTH


@pytest.mark.parametrize("count", [4, 6, 9, 10, 16, 25, 36, 64, 100])
def test_grids_of_common_sizes_are_complete(count: int) -> None:
    assert count % images._num_blocks(count, 1) == 0


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


def test_predictions_are_side_by_side_and_a_target_that_differs_is_last() -> None:
    shown = torch.full((1, 3, 4, 4), 10, dtype=torch.uint8)
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    for target, expected in ((None, (10, 10, 20, 30)), (40, (10, 10, 20, 30, 40))):
        last = last_row(pixels(reconstructions(shown, mask, 20, 30, target=target, scale=8)))
        assert last.tolist() == [level for level in expected for _ in range(32)]


def test_more_nats_are_brighter_and_none_is_gray() -> None:
    shown = torch.full((1, 3, 2, 2), 100, dtype=torch.uint8)
    maps = np.array([[[0.0, 1.0], [2.0, np.nan]]])
    grid = images.surprise_grid([images.MappedImages("least likely", shown, maps)])
    picture = pixels(grid.convert("RGB")).astype(int)
    side = picture.shape[1] // 2
    quarter, three = side // 4, 3 * side // 4
    mapped = picture[-side:, -side:]
    dark, middle = mapped[quarter, quarter], mapped[quarter, three]
    bright, missing = mapped[three, quarter], mapped[three, three]
    assert dark.sum() < middle.sum() < bright.sum()
    assert missing.tolist() == [100, 100, 100]
    nothing = images.MappedImages("a", shown, np.full((1, 2, 2), np.nan))
    assert images.surprise_grid([nothing]).width > 0


def test_names_and_scores_are_below_the_pictures() -> None:
    drawn, maps = torch.zeros(3, 3, 8, 8, dtype=torch.uint8), np.zeros((3, 4, 4))
    names, scores = ["a.png", "folder/" * 30 + "b.png", "c.png"], ["3 nats", "2 nats", "1 nats"]
    plain, labeled = (
        pixels(images.surprise_grid([images.MappedImages("", drawn, maps, *labels)]))
        for labels in ((), (names, scores))
    )
    assert labeled.shape[0] == plain.shape[0] + 2 * images.LABEL_HEIGHT  # three images in two blocks
    assert labeled[-images.LABEL_HEIGHT :, :, 3].any()


def test_pairs_are_side_by_side_and_large_images_fit() -> None:
    first = torch.zeros(7, 3, 4, 4, dtype=torch.uint8)
    second = first.clone()
    first[:, 0], second[:, 2] = 255, 255
    labels = [sheets.PairLabel("0.99", "train/" * 40 + "a.png", "b.png")] * 7
    picture = pixels(sheets.plot_pairs("Pairs", first, second, labels)).astype(int)
    red, blue = ((picture == color).all(-1) for color in ([255, 0, 0], [0, 0, 255]))
    assert red.sum() == blue.sum() == 7 * 96 * 96
    rows, columns = red.nonzero()
    assert blue[rows, columns + sheets.CELL + sheets.GAP].all()
    large = torch.full((1, 3, 300, 150), 100, dtype=torch.uint8)
    assert (pixels(sheets.plot_pairs("", large, large, labels[:1])) == 100).all(-1).sum() == 2 * 96 * 48
