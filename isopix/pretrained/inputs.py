"""Images and masks that a caller passes to a model: checked, and made what the network reads."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from einops import rearrange
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.types import Images, Mask
from isopix.data.decode import RawImage, range_note
from isopix.data.preprocess import preprocess
from isopix.data.sources.base import SourceSplit
from isopix.data.sources.memory import raw_image
from isopix.runs.load import LoadedRun

OneImage = Tensor | NDArray[Any] | Image.Image | str | os.PathLike[str] | bytes
if TYPE_CHECKING:
    ArrayLike = Tensor | NDArray[Any]
    ImagesLike = OneImage | Sequence[OneImage]
else:
    ArrayLike = ImagesLike = Any  # what is read says what is wrong


def as_images(given: ImagesLike, loaded: LoadedRun) -> Images:
    """Return uint8 images [B 3 H W] of the model's resolution, of all that `PretrainedModel` takes."""
    codec = loaded.network.codec
    if isinstance(given, Tensor | np.ndarray):
        values = _as_tensor(given)
        if values.dtype == torch.uint8 and values.shape[1:] == (3, *codec.image_size):
            return values
        if values.dtype == torch.uint8 and values.shape[1:] == (*codec.image_size, 3):
            return rearrange(values, "b h w c -> b c h w").contiguous()
        is_batch = given.ndim == 4 and len(given) and values.dtype == torch.uint8
        several: Iterable[OneImage] = given if is_batch else [given]
    else:
        several = given if isinstance(given, Sequence) and not isinstance(given, str | bytes) else [given]
    return _resized([_one(each, codec, loaded.recipe.data.white) for each in several], loaded)


def as_mask(values: ArrayLike, images: Images, codec: Codec) -> Mask:
    """Return a mask of these images as [B N #Q]. Raises ValueError for anything but bool [B N] or [B N Q]."""
    tensor, shape = _as_tensor(values), (len(images), codec.grid.positions)
    if tensor.dtype != torch.bool or tensor.shape not in (shape, (*shape, 1), (*shape, codec.num_codes)):
        given = f"{tensor.dtype} of shape {list(tensor.shape)}"
        raise ValueError(f"mask must be bool {list(shape)} or [B N Q], True where masked; got {given}")
    return tensor[..., None] if tensor.ndim == 2 else tensor


def require_images(images: Images) -> Images:
    """Return the images. Raises ValueError if there are none."""
    if not len(images):
        raise ValueError("expected at least 1 image, got 0")
    return images


def _resized(images: Sequence[RawImage | Tensor], loaded: LoadedRun) -> Images:
    rows, cols = loaded.network.codec.image_size
    config = replace(loaded.recipe.data.centered(), rows=rows, cols=cols)
    raw = [each for each in images if not isinstance(each, Tensor)]
    range_note(raw, config.white)  # raises ValueError
    split = SourceSplit(len(raw), lambda start, stop: iter(raw[start:stop]), str, None)
    found, results = preprocess(split, config), torch.empty(len(images), 3, rows, cols, dtype=torch.uint8)
    for place, each in enumerate(images):
        if isinstance(each, Tensor):
            results[place] = each
            continue
        image = next(found)
        if isinstance(image, str):
            name = each if isinstance(each, Path) else f"image {place}" if len(images) > 1 else "the image"
            raise ValueError(f"{name} cannot be read: {image}")
        results[place] = torch.from_numpy(image.image)
    return results


def _one(given: OneImage, codec: Codec, white: int | None) -> RawImage | Tensor:
    """Return an image as it is decoded later, or an array of the model's size as [3 H W]."""
    image: Any = raw_image(given, white)
    if not isinstance(given, Tensor | np.ndarray) or image.shape != (*codec.image_size, 3):
        return image
    return rearrange(torch.tensor(image), "h w c -> c h w")


def _as_tensor(values: ArrayLike) -> Tensor:
    if isinstance(values, Tensor):
        return values
    # Arrays are copied: torch warns about read-only ones, and supports native byte order only.
    return torch.tensor(values.astype(values.dtype.newbyteorder("=")))
