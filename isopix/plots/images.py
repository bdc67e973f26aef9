"""Image grids: every pixel is an integer number of screen pixels; every image has a frame. Surprise maps."""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, UInt8
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from isopix.core.types import Images

Tiles = UInt8[np.ndarray, "B height width 4"]  # RGBA
Maps = Float[np.ndarray, "B R S"]
PixelMask = Bool[Tensor, "B H W"]
End = Literal["start", "end"]

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
FONT = Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")  # most scripts; Pillow's has Latin only
MAP_QUANTILE = 0.995  # of all nats, which has the brightest color: single pixels would leave the rest dark
BAR_WIDTH = 256  # pixels, of the color bar of surprise maps
MAP_OPACITY = 0.85  # of a surprise map over its image


class Group(NamedTuple):
    """Columns of tiles under one caption; below the tiles of the first column their labels, if there are."""

    caption: str
    columns: Sequence[Tiles]
    labels: Sequence[str] = ()
    keep: End = "end"  # of labels that are too wide; names of files differ at their ends


class MappedImages(NamedTuple):
    """Images under a caption, their nats per pixel on a grid (NaN: not predicted), names and scores."""

    caption: str
    images: Images
    maps: Maps
    names: Sequence[str] = ()
    scores: Sequence[str] = ()


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


def side_by_side(parts: Mapping[str, Sequence[Images]], mask: PixelMask | None = None) -> Image.Image:
    """Return columns of images under their captions; the mask covers those of the caption `masked`."""
    columns, first = sum(map(len, parts.values())), next(iter(parts.values()))[0]
    blocks = _num_blocks(len(first), columns)
    scale, groups = fit_scale(first, blocks * columns), []
    for name, images in parts.items():
        tiles = [enlarge(each, scale) for each in images]
        if mask is not None and name == "masked":
            tiles = [_cover_masked(each, mask, scale) for each in tiles]
        groups.append(Group(name, tiles))
    return image_grid(groups, blocks=blocks)


def reconstruction_grid(
    originals: Images, mask: PixelMask, predictions: Mapping[str, Images], targets: Images
) -> Image.Image:
    """Return originals, masked images, predictions, and differing targets (inductive biases, figure 1)."""
    others = {name: [images] for name, images in predictions.items()}
    if not torch.equal(targets, originals):
        others["target"] = [targets]
    return side_by_side({"original": [originals], "masked": [originals], **others}, mask)


def surprise_grid(columns: Sequence[MappedImages]) -> Image.Image:
    """Return for each caption the images with their maps, all on one scale from 0."""
    known = [each.maps for each in columns if not np.isnan(each.maps).all()]
    top = max((float(np.nanquantile(each, MAP_QUANTILE)) for each in known), default=1.0)
    blocks = 2 if len(columns[0].images) > 2 else 1
    scale, groups = fit_scale(columns[0].images, 2 * blocks * len(columns)), []
    for each in columns:
        maps = overlay_maps(each.images, each.maps, top or 1.0, scale)
        groups.append(Group(each.caption, [enlarge(each.images, scale)], each.names))
        groups.append(Group("surprise", [maps], each.scores, "start"))
    return _with_color_bar(image_grid(groups, blocks=blocks), top or 1.0)


def _with_color_bar(grid: Image.Image, top: float) -> Image.Image:
    """Return surprise maps above a bar of their colors, from 0 to `top` nats, over gray."""
    gray, levels = torch.full((1, 3, 1, BAR_WIDTH), 128, dtype=torch.uint8), np.linspace(0, top, BAR_WIDTH)
    [bar] = overlay_maps(gray, levels[None, None], top)
    text, below = f"0 to {top:.1f} nats per pixel or more", grid.height + LABEL_HEIGHT // 2
    image = Image.new("RGBA", (max(grid.width, 3 * BAR_WIDTH), below + LABEL_HEIGHT))
    image.paste(grid)
    image.paste(Image.fromarray(bar).resize((BAR_WIDTH, LABEL_HEIGHT)), (0, below))
    write_text(ImageDraw.Draw(image), (BAR_WIDTH + GROUP_GUTTER, below + FRAME), text, image.width)
    return image


def overlay_maps(images: Images, maps: Maps, top: float, scale: int = 1) -> Tiles:
    """Return the maps in color, 0 to `top`, over the images in gray; pixels without a number are gray."""
    pixels = rearrange(images.cpu().numpy(), "b c h w -> b h w c")
    gray = (pixels @ np.array([0.299, 0.587, 0.114]))[..., None].repeat(3, 3)
    side = pixels.shape[1] // maps.shape[1]
    maps = maps.repeat(side, 1).repeat(side, 2)
    heat = mpl.colormaps["inferno"](np.nan_to_num(maps / top).clip(0, 1))[..., :3] * 255
    mixed = np.where(np.isnan(maps)[..., None], gray, MAP_OPACITY * heat + (1 - MAP_OPACITY) * gray)
    return _tiles(mixed.round().astype(np.uint8), scale)


def _num_blocks(count: int, columns: int) -> int:
    """Return how many blocks side by side make a grid twice as wide as high, if possible with full lines."""

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


def enlarge(images: Images, scale: int) -> Tiles:
    """Return images as tiles, every pixel a square of `scale` pixels."""
    return _tiles(rearrange(images.cpu().numpy(), "b c h w -> b h w c"), scale)


def _tiles(pixels: UInt8[np.ndarray, "B H W 3"], scale: int) -> Tiles:
    opaque = np.pad(pixels, [(0, 0)] * 3 + [(0, 1)], constant_values=255)
    return opaque.repeat(scale, 1).repeat(scale, 2)


def write_text(
    draw: ImageDraw.ImageDraw,
    place: tuple[int, int],
    text: str,
    width: int,
    *,
    size: int = LABEL_SIZE,
    color: tuple[int, ...] = CAPTION_COLOR,
    keep: End = "start",
) -> None:
    """Write text of at most this width, with an ellipsis for its end, or its start, where it is too wide."""
    font = ImageFont.truetype(FONT, size)
    shown, length = text, len(text)
    while length and draw.textlength(shown, font) > width:
        length -= 1
        shown = text[:length] + "…" if keep == "start" else "…" + text[len(text) - length :]
    draw.text(place, shown, color, font)


def _cover_masked(tiles: Tiles, mask: PixelMask, scale: int) -> Tiles:
    """Cover masked pixels with a dotted square, which no image contains."""
    square = np.full((scale, scale, 4), [*MASK_COLOR, 255], dtype=np.uint8)
    side = scale // 4
    first = (scale - side) // 2
    square[first : first + side, first : first + side] = [*MASK_DOT_COLOR, 255]
    rows, cols = mask.shape[1:]
    covered = mask.cpu().numpy().repeat(scale, 1).repeat(scale, 2)[..., None]
    return np.where(covered, np.tile(square, (rows, cols, 1)), tiles)


def image_grid(groups: Sequence[Group], *, blocks: int) -> Image.Image:
    """Return framed groups, one image per line, in `blocks` blocks that are filled line by line."""
    columns = [column for group in groups for column in group.columns]
    height, width = (side + 2 * FRAME for side in columns[0].shape[1:3])
    header = MAX_FONT_SIZE + 16 if any(group.caption for group in groups) else 0
    step = height + (LABEL_HEIGHT if any(group.labels for group in groups) else 0)
    block_width = len(columns) * width + (len(groups) - 1) * GROUP_GUTTER + BLOCK_GUTTER
    lines = math.ceil(max(map(len, columns)) / blocks)
    image = Image.new("RGBA", (blocks * block_width - BLOCK_GUTTER, header + lines * step))
    draw = ImageDraw.Draw(image)
    font = _caption_font(draw, groups, width)
    for block in range(blocks):
        left = block * block_width
        for group in groups:
            if font is not None:
                draw.text((left, 0), group.caption, CAPTION_COLOR, font)
            for line, label in enumerate(group.labels[block::blocks]):
                write_text(draw, (left, header + line * step + height), label, width, keep=group.keep)
            for column in group.columns:
                for line, tile in enumerate(column[block::blocks]):
                    top = header + line * step
                    draw.rectangle((left, top, left + width - 1, top + height - 1), FRAME_COLOR)
                    image.paste(Image.fromarray(tile), (left + FRAME, top + FRAME))
                left += width
            left += GROUP_GUTTER
    return image


def _caption_font(draw: ImageDraw.ImageDraw, groups: Sequence[Group], width: int) -> Any:
    for size in range(MAX_FONT_SIZE, MIN_FONT_SIZE - 1, -1):
        font = ImageFont.truetype(FONT, size)
        if all(draw.textlength(each.caption, font) <= len(each.columns) * width for each in groups):
            return font
    return None
