"""Which test images a probe classifies correctly, as records have it: a bit for each image in base 64."""

import base64
from functools import cache

import numpy as np
from jaxtyping import Bool

from isopix.studies.inductive_bias.results import ProbedLayers

Correct = Bool[np.ndarray, " B"]


def pack_correct(correct: Correct) -> str:
    """Return a bit for each image in base 64."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode()


@cache
def unpack_correct(packed: str, num_images: int) -> Correct:
    """Return what `pack_correct` packed."""
    bits = np.frombuffer(base64.b64decode(packed, validate=True), dtype=np.uint8)
    return np.unpackbits(bits, count=num_images).astype(bool)


def correct_images(probed: ProbedLayers, layer: int) -> Correct | None:
    """Return whether a layer classifies each test image correctly; None if that is not known."""
    if not probed.correct:
        return None
    return unpack_correct(probed.correct[layer if len(probed.correct) > 1 else 0], probed.num_images)
