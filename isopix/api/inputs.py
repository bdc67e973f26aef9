"""Check the images and masks that a caller passes to a model; each mistake is one clear line."""

from typing import Any

import numpy as np
import torch
from einops import rearrange
from numpy.typing import NDArray
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Images, Mask

ArrayLike = Tensor | NDArray[Any]


def as_images(values: ArrayLike, codec: Codec, device: torch.device) -> Images:
    """Return uint8 images [B 3 H W] of the model's resolution, from images [B 3 H W] or [B H W 3] or from
    integer codes [B N] or [B N Q], which are decoded on `device`, the codec's own.

    Raises ValueError for anything else, and for codes outside the vocabulary.
    """
    (height, width), tensor = image_size(codec), _as_tensor(values)
    if tensor.dtype == torch.uint8 and tensor.shape[1:] == (3, height, width):
        return tensor
    if tensor.dtype == torch.uint8 and tensor.shape[1:] == (height, width, 3):
        return rearrange(tensor, "b h w c -> b c h w").contiguous()
    is_integer = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    if is_integer and tensor.shape[1:] in ((codec.grid.positions,), (codec.grid.positions, codec.num_codes)):
        return codec.decode(_as_codes(tensor, codec).to(device))
    raise ValueError(
        f"expected uint8 images [B 3 {height} {width}] or [B {height} {width} 3], or integer codes "
        f"[B {codec.grid.positions}] or [B {codec.grid.positions} {codec.num_codes}] "
        f"below {codec.vocab_size}; got {tensor.dtype} of shape {list(tensor.shape)}"
    )


def as_mask(values: ArrayLike, images: Images, codec: Codec) -> Mask:
    """Return a mask of these images as bool [B N #Q], True where masked. Raises ValueError for anything but
    bool [B N] or [B N Q].
    """
    tensor, shape = _as_tensor(values), (len(images), codec.grid.positions)
    if tensor.dtype != torch.bool or tensor.shape not in (shape, (*shape, 1), (*shape, codec.num_codes)):
        codes = f" or {[*shape, codec.num_codes]}" if codec.num_codes > 1 else ""
        raise ValueError(
            f"mask must be bool {list(shape)}{codes}, True where masked; "
            f"got {tensor.dtype} of shape {list(tensor.shape)}"
        )
    return tensor[..., None] if tensor.ndim == 2 else tensor


def require_images(images: Images) -> Images:
    """Return the images. Raises ValueError if there are none."""
    if not len(images):
        raise ValueError("expected at least 1 image, got 0")
    return images


def image_size(codec: Codec) -> tuple[int, int]:
    """Return height and width of the model's images, in pixels."""
    return codec.grid.rows * codec.patch_size, codec.grid.cols * codec.patch_size


def _as_tensor(values: ArrayLike) -> Tensor:
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    try:
        # In native byte order and copied: torch supports no other order, and warns about read-only arrays.
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    except TypeError:
        raise ValueError(f"expected an array of numbers, got dtype {array.dtype}") from None


def _as_codes(tensor: Tensor, codec: Codec) -> Codes:
    codes = tensor.long().view(len(tensor), codec.grid.positions, codec.num_codes)
    low, high = (int(codes.min()), int(codes.max())) if codes.numel() else (0, 0)
    if low < 0 or high >= codec.vocab_size:
        raise ValueError(f"codes range from {low} to {high}; this model's are 0 to {codec.vocab_size - 1}")
    return codes
