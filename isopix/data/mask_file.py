"""Mask files: which pixels of a picture are hidden, drawn in any image program."""

import io
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from PIL import Image, ImageOps

from isopix.data.decode import NEVER_REDUCED, decode_image, failure_reason, read_content

MIDDLE = 128  # of the levels 0 to 255: from here on, a pixel is white, or opaque


def read_mask(path: Path) -> Bool[np.ndarray, "rows cols"]:
    """Return True where a file hides: its transparent pixels, or if it has none, its white ones.

    Raises ValueError for a file that is not an image.
    """
    try:
        content = read_content(path)
        assert isinstance(content, bytes), "a file"
        lightness = np.asarray(decode_image(content, NEVER_REDUCED).convert("L"))
        with Image.open(io.BytesIO(content)) as image:
            alpha = np.asarray(ImageOps.exif_transpose(image).convert("RGBA"))[..., 3]
    except Exception as error:  # damaged files raise OSError, ValueError, SyntaxError, struct.error and more
        raise ValueError(f"mask {path} cannot be read: {failure_reason(error)}") from None
    transparent = alpha < MIDDLE
    return transparent if transparent.any() else lightness >= MIDDLE
