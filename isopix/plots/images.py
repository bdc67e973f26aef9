"""Walls of images: every pixel is a square of whole screen pixels; thin transparent gutters lie between."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, UInt8
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from isopix.core.types import Images
from isopix.generate.reconstruct import Reconstruction

Drawn = UInt8[Tensor, "drawn 3 H W"]
Cells = UInt8[np.ndarray, "B height width 4"]  # the last is opacity: gutters show the page

WIDTH = 2240  # pixels that a picture fills where no scale is given: a page on a fine screen
MOST_CELL = 512  # pixels of a side above which one image is no longer enlarged
GAP_COST = 0.7  # against a wall of another shape: just more than one twice as wide or high
THIN, WIDE, BROAD = 8, 24, 72  # gutters between images, between groups and between blocks
VEIL, DOT = (0xC9, 0xBA, 0xD4), (0x99, 0x84, 0xA8)  # an unseen pixel: mauve, rare in pictures, with a dot
CAPTION = (0x76, 0x7C, 0x85)  # legible on white and on black
LETTERS = (32, 14)  # heights in pixels: the largest that fits, and the least


class Group(NamedTuple):
    """Columns that share a caption."""

    caption: str
    columns: Sequence[Cells]


def samples(images: Images, *, columns: int | None = None, scale: int | None = None) -> Image.Image:
    """All images, in reading order. Raises ValueError if there are none."""
    columns = min(columns or _across(len(images), 1), len(images))
    cells = _enlarge(images, scale or _fit(images, columns))
    return _wall([Group("", [cells[i::columns] for i in range(columns)])], blocks=1)


def completions(
    originals: Images, completed: Drawn, *, rows: int, each: int, scale: int | None = None
) -> Image.Image:
    """For every image what was given of it, its `each` completions [B*each], and the image itself."""
    blocks = _across(len(originals), each + 2)
    scale = scale or _fit(originals, blocks * (each + 2))
    unseen = torch.zeros_like(originals[:, 0], dtype=torch.bool)
    unseen[:, rows:] = True
    whole, drawn = _enlarge(originals, scale), _enlarge(completed, scale)
    groups = [
        Group("given", [_veil(whole, unseen, scale)]),
        Group("completed", [drawn[i::each] for i in range(each)]),
        Group("original", [whole]),
    ]
    return _wall(groups, blocks=blocks)


def reconstructions(found: Reconstruction, *, scale: int | None = None) -> Image.Image:
    """For every image the original, what was shown of it, what the model put where it saw nothing, and the
    target that it should have put there; a pixel of which a single channel was hidden is veiled too. Where
    the original is the target it stands there alone.
    """
    return compared({"filled in": found}, scale=scale)


def compared(found: Mapping[str, Reconstruction], *, scale: int | None = None) -> Image.Image:
    """The same with the answers of several models, by name, to one problem (inductive biases of small
    isotropic nets, figure 1).
    """
    first = next(iter(found.values()))
    drawn = {name: each.answer for name, each in found.items()}
    if not torch.equal(first.target, first.original):
        drawn["target"] = first.target
    columns = 2 + len(drawn)
    blocks = _across(len(first.original), columns)
    scale = scale or _fit(first.original, blocks * columns)
    whole = _enlarge(first.original, scale)
    groups = [
        Group("original", [whole]),
        Group("shown", [_veil(whole, first.unseen, scale)]),
        *(Group(name, [_enlarge(images, scale)]) for name, images in drawn.items()),
    ]
    return _wall(groups, blocks=blocks)


def _across(count: int, columns: int) -> int:
    """How many images, each of so many columns, stand side by side: twice as wide as high, without gaps."""

    def cost(across: int) -> tuple[float, int]:
        lines = math.ceil(count / across)
        gap = GAP_COST if count % across else 0.0
        return abs(math.log(across * columns / lines / 2)) + gap, -across

    return min(range(1, count + 1), key=cost, default=0)


def _fit(images: Images, columns: int) -> int:
    """The largest whole factor at which that many columns fit the width of a page."""
    if not len(images):
        raise ValueError("a picture needs at least one image")
    height, width = images.shape[2:]
    return max(1, min(WIDTH // (columns * width), MOST_CELL // max(height, width)))


def _enlarge(images: Drawn, scale: int) -> Cells:
    pixels = rearrange(images.cpu().numpy(), "b c h w -> b h w c").repeat(scale, 1).repeat(scale, 2)
    return np.concatenate([pixels, np.full_like(pixels[..., :1], 255)], axis=-1)


def _veil(cells: Cells, unseen: Bool[Tensor, "B H W"], scale: int) -> Cells:
    """Put a dotted square, which no image contains, over every pixel that the model was not shown."""
    sign = np.array([*VEIL, 255], dtype=np.uint8) + np.zeros((scale, scale, 1), dtype=np.uint8)
    side = scale // 4
    first = (scale - side) // 2
    sign[first : first + side, first : first + side] = [*DOT, 255]
    rows, cols = unseen.shape[1:]
    covered = unseen.cpu().numpy().repeat(scale, 1).repeat(scale, 2)[..., None]
    return np.where(covered, np.tile(sign, (rows, cols, 1)), cells)


def _wall(groups: Sequence[Group], *, blocks: int) -> Image.Image:
    """Groups side by side, one image a line; `blocks` such walls next to one another, filled line by line."""
    columns = [column for group in groups for column in group.columns]
    count, height, width = max(len(column) for column in columns), *columns[0].shape[1:3]
    head = LETTERS[0] + 16 if any(group.caption for group in groups) else 0
    places, spans, end = _places(groups, width, blocks)
    lines = math.ceil(count / blocks)
    canvas = np.zeros((head + lines * (height + THIN) - THIN, end, 4), dtype=np.uint8)
    for number, column in enumerate(columns):
        for i, cell in enumerate(column):
            top = head + (i // blocks) * (height + THIN)
            left = places[(i % blocks) * len(columns) + number]
            canvas[top : top + height, left : left + width] = cell
    picture = Image.fromarray(canvas)
    if head:
        _write(picture, spans)
    return picture


def _places(
    groups: Sequence[Group], width: int, blocks: int
) -> tuple[list[int], list[tuple[str, int, int]], int]:
    """Where each column begins, the caption, left and right of each group, and how wide all is."""
    places, spans, left = [], [], 0
    for _ in range(blocks):
        for group in groups:
            begin = left
            for _ in group.columns:
                places.append(left)
                left += width + THIN
            spans.append((group.caption, begin, left - THIN))
            left += WIDE - THIN
        left += BROAD - WIDE
    return places, spans, left - BROAD


def _write(picture: Image.Image, spans: Sequence[tuple[str, int, int]]) -> None:
    """Captions above their columns, in one size; none if even the smallest letters do not fit."""
    draw = ImageDraw.Draw(picture)
    for size in range(*LETTERS, -1):
        font = ImageFont.load_default(size)
        if all(draw.textlength(caption, font) <= right - left for caption, left, right in spans):
            for caption, left, _ in spans:
                draw.text((left, 0), caption, (*CAPTION, 255), font)
            break
