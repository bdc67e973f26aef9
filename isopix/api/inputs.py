"""Given: what a caller hands to a model, checked once; each mistake is one line that says what is taken."""

from typing import Any, get_args

import numpy as np
import torch
from einops import rearrange
from numpy.typing import NDArray
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Images, Mask

Given = Tensor | NDArray[Any]  # images or codes


def images_of(given: Given, codec: Codec, device: torch.device) -> Images:
    """Images of the model's resolution, from images or codes of one of the forms that `Pretrained` takes;
    codes are decoded on `device`, the codec's own.

    Raises ValueError for anything else, and for codes that the model does not know.
    """
    side = (codec.grid.rows * codec.patch_size, codec.grid.cols * codec.patch_size)
    values = _tensor(given)
    if values.dtype == torch.uint8 and values.shape[1:] == (3, *side):
        return values
    if values.dtype == torch.uint8 and values.shape[1:] == (*side, 3):
        return rearrange(values, "b h w c -> b c h w").contiguous()
    whole = not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)
    if whole and values.shape[1:] in ((codec.grid.positions,), (codec.grid.positions, codec.num_codes)):
        return codec.decode(_codes(values, codec).to(device))
    high, wide = side
    raise ValueError(
        f"{values.dtype} of shape {list(values.shape)} is neither images nor codes of this model; "
        f"it takes uint8 images [B 3 {high} {wide}] or [B {high} {wide} 3], and integer codes "
        f"[B {codec.grid.positions}] or [B {codec.grid.positions} {codec.num_codes}] below {codec.vocab_size}"
    )


def hidden_of(given: Given, images: Images, codec: Codec) -> Mask:
    """Which positions or codes of these images are hidden. Raises ValueError for anything but bool [B N] or
    [B N Q].
    """
    values, wanted = _tensor(given), (len(images), codec.grid.positions)
    if values.dtype != torch.bool or values.shape not in (wanted, (*wanted, 1), (*wanted, codec.num_codes)):
        codes = (
            f" or {[*wanted, codec.num_codes]}, True where a code is hidden" if codec.num_codes > 1 else ""
        )
        raise ValueError(
            f"hidden is {values.dtype} of shape {list(values.shape)}; it takes bool {list(wanted)}, "
            f"True where a position is hidden{codes}"
        )
    return values[..., None] if values.ndim == 2 else values


def some(images: Images) -> Images:
    """The images. Raises ValueError if there are none."""
    if not len(images):
        raise ValueError("there are 0 images; it takes at least 1")
    return images


def one_of(name: str, value: object, choices: object) -> None:
    """Raises ValueError for a value that is none of a Literal's."""
    allowed = get_args(choices)
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; allowed: {', '.join(map(str, allowed))}")


def is_whole(value: object) -> bool:
    """Whether it is a whole number, NumPy's included."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole(name: str, value: Any, least: int = 1) -> None:
    """Raises ValueError for what is no whole number, or one below `least`."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}")


def _tensor(given: Given) -> Tensor:
    if isinstance(given, Tensor):
        return given
    array = np.asarray(given)
    try:
        # Native and copied: torch knows no other order of bytes, and warns of what cannot be written to.
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    except TypeError:
        raise ValueError(f"an array of {array.dtype} is neither images nor codes; both are numbers") from None


def _codes(values: Tensor, codec: Codec) -> Codes:
    codes = values.long().view(len(values), codec.grid.positions, codec.num_codes)
    low, high = (int(codes.min()), int(codes.max())) if codes.numel() else (0, 0)
    if low < 0 or high >= codec.vocab_size:
        raise ValueError(f"codes run from {low} to {high}; this model knows 0 to {codec.vocab_size - 1}")
    return codes
