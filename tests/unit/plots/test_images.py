"""Grids, sheets and palettes show every pixel and color exactly, masked pixels dotted, surprise bright."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from isopix.core.random import generator
from isopix.core.types import Images
from isopix.plots import images
from isopix.plots import palette as plots

SIDE, FRAME = 4, images.FRAME


def draw(count: int) -> Images:
    random = generator(0, "test.images")
    return torch.randint(256, (count, 3, SIDE, SIDE), generator=random, dtype=torch.uint8)


def constant(level: int) -> Images:
    return torch.full((1, 3, SIDE, SIDE), level, dtype=torch.uint8)


def tiles(grid: Image.Image, groups: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """The corner of every pixel in each column of a grid of one line; `groups` counts those to the left."""
    scale = (grid.width - groups[-1] * images.GROUP_GUTTER) // len(groups) // SIDE - 2 * FRAME // SIDE
    top, width = grid.height - SIDE * scale - FRAME, SIDE * scale + 2 * FRAME
    for place, before in enumerate(groups):
        left = FRAME + place * width + before * images.GROUP_GUTTER
        yield np.asarray(grid)[top:-FRAME, left : left + SIDE * scale][::scale, ::scale, :3]


def pixels(shown: Images) -> NDArray[np.uint8]:
    return shown[0].movedim(0, 2).numpy()


def test_every_pixel_is_a_square_and_every_image_has_a_frame_that_is_no_gray() -> None:
    drawn = draw(6)
    grid = np.asarray(images.sample_grid(drawn, columns=3, scale=5))
    step = 20 + 2 * FRAME
    for i, image in enumerate(drawn):
        found = grid[i // 3 * step :, i % 3 * step :][:step, :step]
        inner = found[FRAME:-FRAME, FRAME:-FRAME]
        assert (inner[..., :3] == pixels(image[None]).repeat(5, 0).repeat(5, 1)).all()
        assert (found[:FRAME] == [*images.FRAME_COLOR, 255]).all()
        assert (found[:, -FRAME:] == [*images.FRAME_COLOR, 255]).all()
    assert len(set(images.FRAME_COLOR)) == 3


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9, 30, 64])
def test_no_grid_is_wider_than_the_target_width(count: int) -> None:
    assert images.sample_grid(draw(count)).width - 64 * 2 * FRAME <= images.TARGET_WIDTH


def test_columns_are_in_the_order_of_their_groups_which_are_apart() -> None:
    parts = {"first": [draw(1), constant(9)], "second": [constant(70)]}
    grid = images.side_by_side(parts)
    shown = list(tiles(grid, (0, 0, 1)))
    for found, image in zip(shown, [image for group in parts.values() for image in group], strict=True):
        assert (found == pixels(image)).all()
    side = (grid.width - images.GROUP_GUTTER) // 3
    gutter = np.asarray(grid)[-FRAME:, 2 * side : 2 * side + images.GROUP_GUTTER, 3]
    assert (gutter == 0).all()


def test_masked_pixels_are_covered_with_dotted_squares_and_no_others() -> None:
    shown, mask = draw(1), torch.zeros(1, SIDE, SIDE, dtype=torch.bool)
    mask[0, 1, 2] = mask[0, 3, 0] = True
    grid = images.reconstruction_grid(shown, mask, {"model": shown}, shown)
    _, masked, _ = tiles(grid, (0, 1, 2))
    covered = mask[0].numpy()
    assert (masked[~covered] == pixels(shown)[~covered]).all()
    assert (masked[covered] == images.MASK_COLOR).all()
    colors = np.unique(np.asarray(grid)[..., :3].reshape(-1, 3), axis=0).tolist()
    assert list(images.MASK_DOT_COLOR) in colors


def test_predictions_are_side_by_side_and_a_target_that_differs_is_last() -> None:
    shown, mask = constant(10), torch.zeros(1, SIDE, SIDE, dtype=torch.bool)
    predictions = {"one": constant(20), "other": constant(30)}
    for target, expected in ((10, (10, 10, 20, 30)), (40, (10, 10, 20, 30, 40))):
        grid = images.reconstruction_grid(shown, mask, predictions, constant(target))
        assert tuple(int(tile[0, 0, 0]) for tile in tiles(grid, range(len(expected)))) == expected


def test_more_nats_are_brighter_and_none_is_gray() -> None:
    shown = torch.full((1, 3, 2, 2), 100, dtype=torch.uint8)
    maps = np.array([[[0.0, 1.0], [2.0, np.nan]]])
    [[[dark, middle], [bright, missing]]] = images.overlay_maps(shown, maps, 2.0)[..., :3].astype(int)
    assert dark.sum() < middle.sum() < bright.sum()
    assert missing.tolist() == [100, 100, 100]
    nothing = images.MappedImages("a", shown, np.full((1, 2, 2), np.nan))
    assert images.surprise_grid([nothing]).width > 0


def test_names_and_scores_are_below_the_pictures() -> None:
    drawn, maps = torch.zeros(3, 3, 8, 8, dtype=torch.uint8), np.zeros((3, 4, 4))
    names, scores = ["a.png", "folder/" * 30 + "b.png", "c.png"], ["3 nats", "2 nats", "1 nats"]
    plain, labeled = (
        np.asarray(images.surprise_grid([images.MappedImages("", drawn, maps, *labels)]))
        for labels in ((), (names, scores))
    )
    assert labeled.shape[0] == plain.shape[0] + 2 * images.LABEL_HEIGHT  # three images in two blocks
    bar = 3 * images.LABEL_HEIGHT // 2
    assert labeled[-bar - images.LABEL_HEIGHT : -bar, :, 3].any()
    first, middle, last = labeled[-8, [0, images.BAR_WIDTH // 2, images.BAR_WIDTH - 1], :3].sum(-1)
    assert first < middle < last


def colors(count: int) -> torch.Tensor:
    return (255 * torch.rand(count, 3, generator=generator(0, "colours"))).round()


@pytest.mark.parametrize("count", [1, 17, 33, 512])
def test_every_color_has_one_tile(count: int) -> None:
    palette = colors(count)
    tiles = plots.arrange_colors(palette).flatten(0, 1).tolist()
    for color in palette.tolist():
        tiles.remove(color)
    assert all(tile == [255, 255, 255] for tile in tiles)


def test_columns_run_from_light_to_dark() -> None:
    palette = colors(512)
    tiles = plots.arrange_colors(palette)
    assert ((tiles @ torch.tensor(plots.LUMA)).diff(dim=0) <= 0).all()
