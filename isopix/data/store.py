"""Stores: how the cache keeps preprocessed images, decoded or encoded; both give the same pixels."""

import abc
from pathlib import Path
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from isopix.core.images import ImageSequence
from isopix.data.decode import is_jpeg
from isopix.data.encoded import EncodedFullResolution, EncodedImages
from isopix.data.encoded_file import EncodedFile, EncodedWriter, encode_pixels
from isopix.data.full_resolution import FullResolution
from isopix.data.mapped import open_images
from isopix.data.preprocess import PreprocessConfig
from isopix.storage.arrays import NpyWriter, open_memmap
from isopix.storage.growing_folder import GrowingFolder

StoreName = Literal["pixels", "encoded"]


class ImageWriter(Protocol):
    """A file that images are appended to."""

    def append(self, values: NDArray[np.uint8], /) -> None:
        """Write one image, as `encode` returns it."""

    def finish(self) -> None:
        """Complete the file."""


class ImageStore(abc.ABC):
    """The files of the images of a split."""

    name: ClassVar[StoreName]

    @abc.abstractmethod
    def encode(self, pixels: NDArray[np.uint8], source: bytes | None = None) -> NDArray[np.uint8]:
        """Return an image, uint8 [3 H W], as it is written; called in threads. `source` is a file that
        decodes to these pixels, if there is one.
        """

    @abc.abstractmethod
    def image_writer(self, folder: GrowingFolder, split: str, config: PreprocessConfig) -> ImageWriter:
        """Return the writer of the images at the model's resolution."""

    @abc.abstractmethod
    def full_writer(self, folder: GrowingFolder, split: str) -> ImageWriter:
        """Return the writer of the full-resolution images."""

    @abc.abstractmethod
    def open_images(self, folder: Path, split: str, config: PreprocessConfig) -> ImageSequence:
        """Return the images at the model's resolution."""

    @abc.abstractmethod
    def open_full(self, folder: Path, split: str) -> FullResolution | EncodedFullResolution:
        """Return the full-resolution images, whose shapes are in `split.shapes.npy` [B 2]."""


class PixelStore(ImageStore):
    """Decoded images, memory-mapped."""

    name = "pixels"

    def encode(self, pixels: NDArray[np.uint8], source: bytes | None = None) -> NDArray[np.uint8]:
        return pixels

    def image_writer(self, folder: GrowingFolder, split: str, config: PreprocessConfig) -> NpyWriter:
        return NpyWriter(folder.file(f"{split}.images.npy"), (3, config.rows, config.cols))

    def full_writer(self, folder: GrowingFolder, split: str) -> NpyWriter:
        return NpyWriter(folder.file(f"{split}.pixels.npy"), ())

    def open_images(self, folder: Path, split: str, config: PreprocessConfig) -> ImageSequence:
        return open_images(folder / f"{split}.images.npy")

    def open_full(self, folder: Path, split: str) -> FullResolution:
        heights, widths = open_memmap(folder / f"{split}.shapes.npy").unbind(1)
        sizes = 3 * heights * widths
        pixels = open_memmap(folder / f"{split}.pixels.npy")
        return FullResolution(pixels, sizes.cumsum(0) - sizes, heights, widths)


class EncodedStore(ImageStore):
    """Losslessly encoded images, or JPEG files as they were, decoded as they are read."""

    name = "encoded"

    def encode(self, pixels: NDArray[np.uint8], source: bytes | None = None) -> NDArray[np.uint8]:
        if source is not None and is_jpeg(source):
            return np.frombuffer(source, np.uint8)
        return encode_pixels(pixels)

    def image_writer(self, folder: GrowingFolder, split: str, config: PreprocessConfig) -> EncodedWriter:
        return EncodedWriter(folder, f"{split}.images")

    def full_writer(self, folder: GrowingFolder, split: str) -> EncodedWriter:
        return EncodedWriter(folder, f"{split}.full")

    def open_images(self, folder: Path, split: str, config: PreprocessConfig) -> ImageSequence:
        return EncodedImages(EncodedFile.open(folder, f"{split}.images"), config.rows, config.cols)

    def open_full(self, folder: Path, split: str) -> EncodedFullResolution:
        heights, widths = open_memmap(folder / f"{split}.shapes.npy").unbind(1)
        return EncodedFullResolution(EncodedFile.open(folder, f"{split}.full"), heights, widths)


STORES: dict[StoreName, ImageStore] = {store.name: store for store in (PixelStore(), EncodedStore())}
