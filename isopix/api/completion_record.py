"""What the record of completions says of their mask."""

import hashlib
from typing import Any

from isopix.codecs.base import Codec
from isopix.generate.complete import Completions
from isopix.generate.mask import MaskLike, PixelMask, mask_label

LATER_PIXELS = (
    "autoregressive models sample hidden pixels in raster order, each given the pixels before it; known "
    "pixels after it are kept, but the model does not see them (masked models see all known pixels)"
)


def later_known(mask: PixelMask, codec: Codec) -> bool:
    """Return whether any known position of an image comes after a hidden one, in raster order."""
    hidden = mask[:, :: codec.patch_size, :: codec.patch_size].flatten(1).int()
    return bool((hidden.diff(dim=1) < 0).any())


def recorded_mask(mask: MaskLike, found: Completions) -> dict[str, Any]:
    """Return the mask in words, the fraction that it hides, and a hash of it; the rows that were given."""
    label = mask_label(mask)
    form, _, rest = label.partition(":")
    rows = {"rows": int(rest)} if form == "rows" and rest.isdecimal() else {}
    content = hashlib.sha256(found.mask.numpy().tobytes()).hexdigest()[:16]
    return {**rows, "mask": label, "hidden": float(found.mask.float().mean()), "mask_hash": content}


def mask_name(mask: MaskLike) -> str:
    """Return a word for the mask, for the names of files: `rows16`, `rectangle`."""
    form, _, rest = mask_label(mask).partition(":")
    name = form + (rest if form == "rows" else "")
    return name if name.isidentifier() else "mask"
