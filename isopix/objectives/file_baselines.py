"""Baselines for autoregressive models: images in lossless files, whose size is a loss as well."""

import abc
import io
import math
from math import isqrt

import numpy as np
import torch
from einops import rearrange
from jaxtyping import UInt8
from PIL import Image, features
from torch.nn.functional import pad

from isopix.codecs.base import Codec
from isopix.core.types import Images
from isopix.model.heads import HeadSpec
from isopix.objectives.baselines import Baseline, MaskedCodes

MOSAIC_PIXELS = 2**20  # in one file, so that its header is negligible
MAX_INDEXED = 256  # colors of an indexed PNG file

# Pillow's options for the smallest files.
FILE_OPTIONS: dict[str, dict[str, int]] = {
    "PNG": {"optimize": True},
    "WEBP": {"lossless": True, "quality": 100},
}

Pixels = UInt8[np.ndarray, "_ _ 3"]


def lossless_file(image: Image.Image, format: str) -> bytes:
    """Return the content of a file of one of FILE_OPTIONS."""
    content = io.BytesIO()
    image.save(content, format=format, **FILE_OPTIONS[format])
    return content.getvalue()


class LosslessFile(Baseline):
    """The bits of files with the decoded images of many images side by side, headers included.

    All images of a file are stored together: a file of one small image is mostly its header. The files hold
    the same information as the codes, since encoding the images gives the codes back.
    """

    def __init__(self, codec: Codec, head: HeadSpec):
        super().__init__(codec, head)
        self.images: list[Images] = []
        self.bits, self.codes = 0, 0

    def fit(self, batch: MaskedCodes) -> None:
        """Nothing is counted in training images."""

    def update(self, batch: MaskedCodes) -> None:
        self.images.append(self.codec.decode(batch.targets).cpu())
        self.codes += batch.targets.numel()
        if sum(images[:, 0].numel() for images in self.images) >= MOSAIC_PIXELS:
            self._write()

    def pop_nats(self) -> float:
        self._write()
        nats = self.bits * math.log(2) / self.codes
        self.bits = self.codes = 0
        return nats

    def _write(self) -> None:
        """Count the bits of the images collected so far."""
        if self.images:
            self.bits += 8 * len(self.encode(_mosaic(torch.cat(self.images))))
            self.images = []

    @abc.abstractmethod
    def encode(self, pixels: Pixels) -> bytes:
        """Return the content of the file."""


class PNGFile(LosslessFile):
    """PNG, with a palette for up to 256 colors."""

    name = "PNG"

    def encode(self, pixels: Pixels) -> bytes:
        return lossless_file(_indexed(pixels), "PNG")


class WebPFile(LosslessFile):
    """Lossless WebP."""

    name = "WebP lossless"

    @classmethod
    def applies(cls, codec: Codec, head: HeadSpec) -> bool:
        return super().applies(codec, head) and bool(features.check("webp"))

    def encode(self, pixels: Pixels) -> bytes:
        return lossless_file(Image.fromarray(pixels), "WEBP")


def _mosaic(images: Images) -> Pixels:
    """Return the images in rows and columns, as nearly a square as possible; missing ones are black."""
    columns = isqrt(len(images) - 1) + 1
    full = pad(images, (0, 0, 0, 0, 0, 0, 0, -len(images) % columns))
    return rearrange(full, "(r k) c h w -> (r h) (k w) c", k=columns).numpy()


def _indexed(pixels: Pixels) -> Image.Image:
    """Return an image with a palette, sorted by red, green and blue, if there are few colors."""
    colors, indices = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True)
    if len(colors) > MAX_INDEXED:
        return Image.fromarray(pixels)
    image = Image.fromarray(indices.reshape(pixels.shape[:2]).astype(np.uint8))
    image.putpalette(colors.tobytes())
    return image
