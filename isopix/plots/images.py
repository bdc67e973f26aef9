"""Image grids: every pixel is an integer number of screen pixels; every image has a frame."""

import io
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, UInt8
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from isopix.core.types import Images
from isopix.plots.fitted_text import fitted_text, load_font

ImageBatch = UInt8[Tensor, "count 3 H W"]
Tiles = UInt8[np.ndarray, "B height width 4"]  # RGBA
FramedTiles = UInt8[np.ndarray, "B framed_height framed_width 4"]

TARGET_WIDTH = 2240  # pixels, where no scale is given: a page on a high-resolution screen
MAX_TILE_SIDE = 512  # pixels, up to which an image is enlarged
INCOMPLETE_COST = 0.7  # of a grid with an incomplete last line; slightly above ln 2, a twofold aspect ratio
FRAME = 4  # pixels, of the frame of an image
GROUP_GUTTER, BLOCK_GUTTER = 16, 64  # pixels between frames of groups and of blocks; transparent
FRAME_COLOR = (0x76, 0x86, 0xA0)  # slate: not a gray level, light or dark, and not the mask
MASK_COLOR, MASK_DOT_COLOR = (0xC9, 0xBA, 0xD4), (0x99, 0x84, 0xA8)  # gray-violet, rare in photographs
CAPTION_COLOR = (0x76, 0x7C, 0x85)  # legible on white and on black
MAX_FONT_SIZE, MIN_FONT_SIZE = 32, 15
LABEL_SIZE, LABEL_HEIGHT = 20, 32  # pixels, of the text below a tile and of its line


class Group(NamedTuple):
    """Columns of tiles under one caption; below the tiles of the first column their labels, if there are."""

    caption: str
    columns: Sequence[Tiles]
    labels: Sequence[str] = ()
    keep: Literal["start", "end"] = "end"  # of labels that are too wide; names of files differ at their ends


def png_bytes(image: Image.Image) -> bytes:
    """Return the content of a PNG file."""
    content = io.BytesIO()
    image.save(content, format="PNG")
    return content.getvalue()


def sample_grid(images: Images, *, columns: int | None = None, scale: int | None = None) -> Image.Image:
    """Return all images in reading order. Raises ValueError for no images."""
    columns = min(columns or _num_blocks(len(images), 1), len(images))
    tiles = enlarge(images, scale or fit_scale(images, columns))
    return image_grid([Group("", [tiles[i::columns] for i in range(columns)])], blocks=1)


def nearest_grid(images: Images, nearest: Images, *, scale: int | None = None) -> Image.Image:
    """Return each image beside the nearest training image."""
    blocks = _num_blocks(len(images), 2)
    scale = scale or fit_scale(images, 2 * blocks)
    groups = [
        Group("sample", [enlarge(images, scale)]),
        Group("nearest", [enlarge(nearest, scale)]),
    ]
    return image_grid(groups, blocks=blocks)


def completion_grid(
    originals: Images,
    pixel_mask: Bool[Tensor, "B H W"],
    completions: UInt8[Tensor, "B each 3 H W"],
    *,
    baselines: Mapping[str, Images] = MappingProxyType({}),
    scale: int | None = None,
) -> Image.Image:
    """Return for each image the original, the masked image, completions without learning by name, and those
    of the model.

    The masked image is that of the completions: as the network reads it, in the colors of its codec.
    """
    columns = 2 + len(baselines) + completions.shape[1]
    blocks = _num_blocks(len(originals), columns)
    scale = scale or fit_scale(originals, blocks * columns)
    tiles = [enlarge(each, scale) for each in completions.unbind(1)]
    groups = [
        Group("original", [enlarge(originals, scale)]),
        Group("masked", [_cover_masked(tiles[0], pixel_mask, scale)]),
        *(Group(name, [enlarge(images, scale)]) for name, images in baselines.items()),
        Group("completion" if len(tiles) == 1 else "completions", tiles),
    ]
    return image_grid(groups, blocks=blocks)


def reconstruction_grid(
    originals: Images,
    pixel_mask: Bool[Tensor, "B H W"],
    predictions: Mapping[str, Images],
    targets: Images,
    *,
    scale: int | None = None,
) -> Image.Image:
    """Return for each image the original, the masked image, predictions by name, of models (inductive biases
    of small isotropic nets, figure 1) or without learning, and the target where it differs from the original.
    """
    results = dict(predictions)
    if not torch.equal(targets, originals):
        results["target"] = targets
    columns = 2 + len(results)
    blocks = _num_blocks(len(originals), columns)
    scale = scale or fit_scale(originals, blocks * columns)
    tiles = enlarge(originals, scale)
    groups = [
        Group("original", [tiles]),
        Group("masked", [_cover_masked(tiles, pixel_mask, scale)]),
        *(Group(name, [enlarge(images, scale)]) for name, images in results.items()),
    ]
    return image_grid(groups, blocks=blocks)


def _num_blocks(count: int, columns: int) -> int:
    """Return how many of `count` blocks of `columns` columns to put side by side, such that the grid is about
    twice as wide as high, preferably without an incomplete line.
    """

    def cost(blocks: int) -> tuple[float, int]:
        lines = math.ceil(count / blocks)
        incomplete = INCOMPLETE_COST if count % blocks else 0.0
        return abs(math.log(blocks * columns / lines / 2)) + incomplete, -blocks

    return min(range(1, count + 1), key=cost, default=0)


def fit_scale(images: Images, columns: int) -> int:
    """Return the largest integer scale at which these columns fit the target width."""
    if not len(images):
        raise ValueError("an image grid needs at least one image")
    height, width = images.shape[2:]
    return max(1, min(TARGET_WIDTH // (columns * width), MAX_TILE_SIDE // max(height, width)))


def enlarge(images: ImageBatch, scale: int) -> Tiles:
    """Return images as tiles, every pixel a square of `scale` pixels."""
    pixels = rearrange(images.cpu().numpy(), "b c h w -> b h w c").repeat(scale, 1).repeat(scale, 2)
    return np.concatenate([pixels, np.full_like(pixels[..., :1], 255)], axis=-1)


def _cover_masked(tiles: Tiles, mask: Bool[Tensor, "B H W"], scale: int) -> Tiles:
    """Cover masked pixels with a dotted square, which no image contains."""
    square = np.array([*MASK_COLOR, 255], dtype=np.uint8) + np.zeros((scale, scale, 1), dtype=np.uint8)
    side = scale // 4
    first = (scale - side) // 2
    square[first : first + side, first : first + side] = [*MASK_DOT_COLOR, 255]
    rows, cols = mask.shape[1:]
    covered = mask.cpu().numpy().repeat(scale, 1).repeat(scale, 2)[..., None]
    return np.where(covered, np.tile(square, (rows, cols, 1)), tiles)


def image_grid(groups: Sequence[Group], *, blocks: int) -> Image.Image:
    """Return groups side by side, one image per line, in `blocks` blocks that are filled line by line."""
    columns = [_framed(column) for group in groups for column in group.columns]
    count, height, width = max(len(column) for column in columns), *columns[0].shape[1:3]
    header = MAX_FONT_SIZE + 16 if any(group.caption for group in groups) else 0
    step = height + (LABEL_HEIGHT if any(group.labels for group in groups) else 0)
    lefts, captions, total_width = _layout(groups, width, blocks)
    corners = [
        [
            (lefts[i % blocks * len(columns) + number], header + i // blocks * step)
            for number in range(len(columns))
        ]
        for i in range(count)
    ]
    canvas = np.zeros((header + math.ceil(count / blocks) * step, total_width, 4), dtype=np.uint8)
    for number, column in enumerate(columns):
        for i, tile in enumerate(column):
            left, top = corners[i][number]
            canvas[top : top + height, left : left + width] = tile
    image = Image.fromarray(canvas)
    if header:
        _write_captions(image, captions)
    _write_labels(image, groups, corners, (width, height))
    return image


def _framed(tiles: Tiles) -> FramedTiles:
    """Return tiles with a frame, so that the images of a grid do not merge with each other or the page."""
    height, width = tiles.shape[1:3]
    framed = np.full(
        (len(tiles), height + 2 * FRAME, width + 2 * FRAME, 4), [*FRAME_COLOR, 255], dtype=np.uint8
    )
    framed[:, FRAME:-FRAME, FRAME:-FRAME] = tiles
    return framed


def _layout(
    groups: Sequence[Group], width: int, blocks: int
) -> tuple[list[int], list[tuple[str, int, int]], int]:
    """Return the left edge of each column, the caption, left and right of each group, and the total width."""
    lefts, captions, left = [], [], 0
    for _ in range(blocks):
        for group in groups:
            start = left
            for _ in group.columns:
                lefts.append(left)
                left += width
            captions.append((group.caption, start, left))
            left += GROUP_GUTTER
        left += BLOCK_GUTTER - GROUP_GUTTER
    return lefts, captions, left - BLOCK_GUTTER


def _write_captions(image: Image.Image, captions: Sequence[tuple[str, int, int]]) -> None:
    """Write captions above their columns in the largest font that fits all; none if the smallest does not."""
    draw = ImageDraw.Draw(image)
    for size in range(MAX_FONT_SIZE, MIN_FONT_SIZE - 1, -1):
        font = ImageFont.load_default(size)
        if all(draw.textlength(caption, font) <= right - left for caption, left, right in captions):
            for caption, left, _ in captions:
                draw.text((left, 0), caption, (*CAPTION_COLOR, 255), font)
            break


def _write_labels(
    image: Image.Image,
    groups: Sequence[Group],
    corners: Sequence[Sequence[tuple[int, int]]],
    size: tuple[int, int],
) -> None:
    """Write the labels of groups below the tiles, of this width and height, of their first columns."""
    draw, number = ImageDraw.Draw(image), 0
    for group in groups:
        for i, label in enumerate(group.labels):
            left, top = corners[i][number]
            text = fitted_text(draw, label, size[0], LABEL_SIZE, keep=group.keep)
            draw.text((left, top + size[1]), text, (*CAPTION_COLOR, 255), load_font(LABEL_SIZE))
        number += len(group.columns)
