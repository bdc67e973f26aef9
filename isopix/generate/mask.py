"""Masks of completions: a position is hidden if any of its pixels is, a pixel if any part of it is."""

import hashlib
import math
import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from einops import reduce, repeat
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.config import from_dict
from isopix.core.overrides import parse
from isopix.core.random import generator
from isopix.core.registry import kinds
from isopix.core.text import count_of
from isopix.core.types import Images, Mask
from isopix.data.decode import read_mask
from isopix.data.preprocess import crop_box
from isopix.objectives.masks import MaskSpec, exact_ratio_mask
from isopix.objectives.visible_baselines import nearest_visible

PixelShape = Bool[Tensor, "H W"]
PixelMask = Bool[Tensor, "B H W"]
if TYPE_CHECKING:
    MaskLike = str | os.PathLike[str] | Tensor | NDArray[Any] | MaskSpec
else:
    MaskLike = Any  # what is read says what is wrong
Source = Bool[Tensor, "_ H W"] | MaskSpec  # the pixels that are hidden of every image or of each, or a policy

ROUNDING = 1e-6  # of a pixel: how far an edge may be off a whole one
LATER_PIXELS = (
    "autoregressive models sample hidden pixels in raster order, each given the pixels before it; known "
    "pixels after it are kept, but the model does not see them (masked models see all known pixels)"
)
RATIO = "0.75"  # of random masks
MIDDLE = "0.25,0.25,0.5,0.5"  # top, left, height and width of a rectangle
FORMS = (
    "half, rows:ROWS, rectangle:TOP,LEFT,HEIGHT,WIDTH (pixels, or fractions of the sides), random:RATIO, a "
    "file, several joined by +, or a registered mask with settings"
)


def completion_mask(mask: MaskLike, codec: Codec, count: int, *, seed: int = 0) -> Mask:
    """Return what is hidden of each of `count` images, bool [count N #Q], True where hidden.

    `mask` is an array, a registered mask part, the path of a file, or a text:

    - `half`, or `rows:16`: all but the first half, or the first 16 rows, of the positions;
    - `rectangle:TOP,LEFT,HEIGHT,WIDTH` in pixels of the model's images, or in fractions of their sides if any
      number has a point; alone, the middle half of both sides;
    - `random:0.75`: this fraction of the positions, others in each image;
    - a registered mask with its settings, as `block:ratio=0.6,side=2`;
    - the name of an image file, which hides its transparent pixels, or if it has none, its white ones;
    - several of these, joined by `+`.

    An array is bool [H W], or [count H W] with a mask for each image. Arrays and files of another size are
    cropped at their center to the images' aspect ratio, and resized. Random masks of image i are a function
    of `seed` and i. Raises ValueError for anything else, and for a mask that hides nothing or everything.
    """
    hidden = torch.zeros(count, codec.grid.positions, 1, dtype=torch.bool)
    side = codec.patch_size
    for source in _sources(mask, codec):
        if isinstance(source, MaskSpec):
            hidden = hidden | _drawn(source, codec, count, seed)
        elif len(source) in (1, count):
            hidden = hidden | reduce(source, "b (h p) (w q) -> b (h w) 1", "any", p=side, q=side)
        else:
            raise ValueError(f"{len(source)} masks for {count_of(count, 'image')}; allowed: 1 or {count}")
    for image, own in enumerate(hidden):
        if not own.any() or own.all():
            what = "every position; at least one must be visible" if own.any() else "nothing"
            raise ValueError(f"mask {mask_label(mask)} hides {what} (image {image})")
    return hidden


def chosen_mask(codec: Codec, *, rows: int | None, mask: MaskLike | None) -> MaskLike:
    """Return the mask, that of `rows`, or that of half the rows. Raises ValueError for both or wrong rows."""
    if rows is not None and mask is not None:
        raise ValueError(f"rows {rows} and mask {mask_label(mask)} are both given; give one of them")
    if rows is not None and not 0 < rows < codec.grid.rows:
        raise ValueError(f"rows {rows} is out of range; allowed: 1 to {codec.grid.rows - 1}")
    return f"rows:{codec.grid.rows // 2 if rows is None else rows}" if mask is None else mask


def mask_label(mask: MaskLike) -> str:
    """Return a mask in words: its text, or the kind of thing that it is."""
    if isinstance(mask, str | os.PathLike):
        return os.fspath(mask)
    return mask.label() if isinstance(mask, MaskSpec) else "array"


def mask_name(mask: MaskLike) -> str:
    """Return a word for the mask, for the names of files: `rows16`, `rectangle`."""
    form, _, rest = mask_label(mask).partition(":")
    name = form + (rest if form == "rows" else "")
    return name if name.isidentifier() else "mask"


def mask_hash(hidden: PixelMask) -> str:
    """Return a hash of the pixels that are hidden."""
    return hashlib.sha256(hidden.numpy().tobytes()).hexdigest()[:16]


def later_known(hidden: PixelMask, codec: Codec) -> bool:
    """Return whether any known position of an image comes after a hidden one, in raster order."""
    positions = hidden[:, :: codec.patch_size, :: codec.patch_size].flatten(1).int()
    return bool((positions.diff(dim=1) < 0).any())


def hidden_pixels(hidden: Mask, images: Images) -> PixelMask:
    """Return True for the pixels of a position of which any code is hidden."""
    height, width = images.shape[-2:]
    side = math.isqrt(height * width // hidden.shape[1])
    return repeat(hidden.any(-1), "b (h w) -> b (h p) (w q)", h=height // side, p=side, q=side)


def nearest_visible_pixels(images: Images, hidden: PixelMask) -> Images:
    """Return images whose hidden pixels are as the nearest visible one, if any: no learning."""
    given = images.cpu()
    found = nearest_visible(given.int(), ~hidden.cpu()[:, None])
    return torch.where(found < 0, given, found).to(torch.uint8)


def _drawn(policy: MaskSpec, codec: Codec, count: int, seed: int) -> Mask:
    policy.check_grid(codec.grid)
    streams = (generator(seed, "complete/mask", image) for image in range(count))
    return torch.cat([policy.sample(1, codec.grid, codec.num_codes, each) for each in streams])


def _sources(mask: MaskLike, codec: Codec) -> list[Source]:
    if isinstance(mask, MaskSpec):
        return [mask]
    if isinstance(mask, os.PathLike) or (isinstance(mask, str) and Path(mask).is_file()):
        return [_file(Path(mask), codec)]
    if isinstance(mask, str):
        return [_parsed(text, codec) for text in mask.split("+")]
    if not isinstance(mask, Tensor | np.ndarray):  # reached by callers that have no type checker
        raise ValueError(_allowed(str(mask)))
    array = torch.from_numpy(np.array(mask)) if isinstance(mask, np.ndarray) else mask.cpu()
    if array.dtype != torch.bool or array.ndim not in (2, 3) or not array.numel():
        given = f"{array.dtype} {list(array.shape)}"
        raise ValueError(f"mask is {given}; allowed: bool [H W] or [B H W], True where hidden")
    each = array[None] if array.ndim == 2 else array
    return [torch.stack([fit_to(codec.image_size, own) for own in each])]


def _parsed(text: str, codec: Codec) -> Source:
    (form, _, rest), size = text.partition(":"), codec.image_size
    if form == "half" or (form == "rows" and rest.isdecimal()):
        rows = codec.grid.rows // 2 if form == "half" else int(rest)
        return (torch.arange(size[0]) >= rows * codec.patch_size)[:, None].expand(1, *size)
    if form == "rectangle":
        return _rectangle(*_numbers(text, rest or MIDDLE, 4), size)[None]
    if form == "random":
        return exact_ratio_mask(_numbers(text, rest or RATIO, 1)[0][0], codec.grid.positions)
    if form in kinds(MaskSpec.noun):
        return from_dict(MaskSpec, {"kind": form, **parse(rest.split(",") if rest else [])})
    if Path(text).is_file():
        return _file(Path(text), codec)
    raise ValueError(_allowed(text))


def _allowed(text: str) -> str:
    return f"mask '{text}' is neither a file nor a mask; allowed: {FORMS} ({', '.join(kinds(MaskSpec.noun))})"


def _file(path: Path, codec: Codec) -> Bool[Tensor, "1 H W"]:
    return fit_to(codec.image_size, torch.from_numpy(read_mask(path)))[None]


def _numbers(text: str, rest: str, count: int) -> tuple[list[float], bool]:
    """Return the numbers of a text, `count` of them, and whether they are fractions."""
    try:
        values = [float(word) for word in rest.split(",")]
    except ValueError:
        values = []
    if len(values) != count or not all(map(math.isfinite, values)):
        raise ValueError(_allowed(text))
    return values, "." in rest


def _rectangle(values: list[float], are_fractions: bool, size: tuple[int, int]) -> PixelShape:
    sides = size if are_fractions else (1, 1)
    top, left, height, width = (each * side for each, side in zip(values, [*sides, *sides], strict=True))
    bottom, right = (math.ceil(end - ROUNDING) for end in (top + height, left + width))
    if min(height, width) <= 0 or min(top, left) < 0 or bottom > size[0] or right > size[1]:
        given = ", ".join(f"{each:g}" for each in (top, left, height, width))
        raise ValueError(
            f"rectangle of top, left, height, width {given} pixels; it must lie inside the picture of "
            f"{size[0]} x {size[1]} pixels, and not be empty"
        )
    hidden = torch.zeros(size, dtype=torch.bool)
    hidden[math.floor(top + ROUNDING) : bottom, math.floor(left + ROUNDING) : right] = True
    return hidden


def fit_to(size: tuple[int, int], mask: Bool[Tensor, "_ _"]) -> PixelShape:
    """Return a mask for a picture of `size`: its center, where a pixel is hidden if any part of it is."""
    left, top, right, bottom = crop_box(mask.shape[1], mask.shape[0], *size, None)
    rows = torch.stack([mask[part].any(0) for part in _parts(top, bottom, size[0], mask.shape[0])])
    return torch.stack([rows[:, part].any(1) for part in _parts(left, right, size[1], mask.shape[1])], 1)


def _parts(start: float, end: float, count: int, length: int) -> list[slice]:
    """Return the lines that each of equal parts of a side touches."""
    edges = [start + i * (end - start) / count for i in range(count + 1)]
    return [
        slice(math.floor(first + ROUNDING), min(length, math.ceil(last - ROUNDING)))
        for first, last in pairwise(edges)
    ]
