"""Flags of images that are blank, dark, bright, blurred, tiny or elongated, without a model."""

import numpy as np
from PIL import Image
from scipy.ndimage import laplace

SIDE = 128  # pixels of the shorter side of larger images when they are measured
MIN_CONTRAST = 2.0  # levels of 0..255, standard deviation
DARK, BRIGHT = 64, 230  # levels: 99% of the pixels are below, 95% are above
MIN_SHARPNESS = 8.0  # variance of the Laplacian, in squared levels
MAX_ASPECT = 3.0  # longer side, as a multiple of the shorter one


def find_flags(rgb: Image.Image, size: tuple[int, int], smallest: tuple[int, int]) -> dict[str, float]:
    """Return what was measured for each flag of an image of `size` (width, height), upright.

    `rgb` may be reduced to a shorter side of `SIDE`, where blur is measured: a low variance of the Laplacian
    (Pech-Pacheco et al. 2000; LAPV of Pertuz et al. 2013). Images of low contrast have one, too: those that
    are blank, dark or bright are not called blurred. An image with a side below `smallest` is tiny.
    """
    found: dict[str, float] = {}
    scale = min(1.0, SIDE / min(rgb.size))
    small = rgb.convert("L").resize([round(scale * side) for side in rgb.size], Image.Resampling.BOX)
    levels = np.asarray(small, np.float32)
    low, high = np.percentile(levels, (5, 99))
    contrast, sharpness = levels.std(), laplace(levels).var()
    if contrast < MIN_CONTRAST:
        found["blank"] = contrast
    if high < DARK:
        found["dark"] = high
    if low > BRIGHT:
        found["bright"] = low
    if not found and sharpness < MIN_SHARPNESS:
        found["blurred"] = sharpness
    if size[0] < smallest[0] or size[1] < smallest[1]:
        found["tiny"] = min(size)
    if max(size) > MAX_ASPECT * min(size):
        found["elongated"] = max(size) / min(size)
    return {flag: round(float(value), 2) for flag, value in found.items()}
