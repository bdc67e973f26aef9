"""Learning-free baselines: codes predicted from counts and earlier codes, and sizes of lossless files."""

import abc
import io
import math
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image, features
from torch import Tensor
from torch.nn.functional import pad

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Images
from isopix.model.heads import HeadSpec, to_levels

CodeMap = Int[Tensor, "B C R S"]  # codes as an image: C channels of R rows and S columns
CodeMask = Bool[Tensor, "B C R S"]
CodeValues = Float[Tensor, "B C R S"]

Pixels = UInt8[np.ndarray, "_ _ 3"]

PAIR_PRIOR = 10.0  # codes; the weight of the unigram in the frequencies of pairs
MAX_PAIRS = 2**24  # values squared, above which pairs are not counted
MOSAIC_PIXELS = 2**20  # in one file, so that its header is negligible
MAX_INDEXED = 256  # colors of an indexed PNG file
# Pillow's options for the smallest files.
FILE_OPTIONS: dict[str, dict[str, int]] = {
    "PNG": {"optimize": True},
    "WEBP": {"lossless": True, "quality": 100},
}


class MaskedCodes(NamedTuple):
    """The codes of images, where they are visible and where in the loss; on the CPU but for `targets`."""

    targets: Codes
    codes: CodeMap
    visible: CodeMask
    in_loss: CodeMask
    weights: Float[Tensor, " B"]

    def mean(self, values: CodeValues) -> float:
        """Return the mean over the codes in the loss of an image, then over images by their weights."""
        counts = self.in_loss.sum((1, 2, 3)).clamp(min=1)
        return float(((values * self.in_loss).sum((1, 2, 3)) / counts * self.weights).sum())


def code_map(codes: Tensor, codec: Codec) -> Tensor:
    """Arrange [B N Q] as an image [B C R S]: the codes of one point are its channels."""
    rows, side = codec.grid.rows, codec.points_per_side
    return rearrange(codes, "b (r c) (i j k) -> b k (r i) (c j)", r=rows, i=side, j=side)


class Baseline(abc.ABC):
    """A prediction of codes that needs no learning by gradient descent."""

    name: ClassVar[str]

    def __init__(self, codec: Codec, head: HeadSpec):
        self.codec, self.head = codec, head

    @classmethod
    def applies(cls, codec: Codec, head: HeadSpec) -> bool:
        """Whether it has a loss that can be compared with that of this head."""
        return head.categorical

    @abc.abstractmethod
    def fit(self, batch: MaskedCodes) -> None:
        """Count the codes of a batch of training images, if that is needed."""

    @abc.abstractmethod
    def update(self, batch: MaskedCodes) -> None:
        """Add a batch of held-out images to the loss."""

    @abc.abstractmethod
    def pop_nats(self) -> float:
        """Return the mean nats per predicted code of the images added so far, and forget them."""


class CountBaseline(Baseline):
    """Probabilities of codes from counts; its loss is -ln p, or of a regression the squared error."""

    def __init__(self, codec: Codec, head: HeadSpec):
        super().__init__(codec, head)
        self.vocab_size, channels = codec.vocab_size, codec.num_codes // codec.points_per_side**2
        self.channel = torch.arange(channels)[:, None, None]
        self.levels = torch.arange(self.vocab_size, dtype=torch.float64)
        self.total, self.images = 0.0, 0

    @classmethod
    def applies(cls, codec: Codec, head: HeadSpec) -> bool:
        return head.categorical or head.predicts_means

    @abc.abstractmethod
    def probability(self, batch: MaskedCodes) -> CodeValues:
        """Return the probability of each code, given the visible codes of its image."""

    @abc.abstractmethod
    def mean(self, batch: MaskedCodes) -> CodeValues:
        """Return the mean code of that distribution."""

    def update(self, batch: MaskedCodes) -> None:
        if self.head.predicts_means:
            means, levels = (to_levels(each, self.vocab_size) for each in (self.mean(batch), batch.codes))
            losses = (means - levels).square() / 2
        else:
            losses = -self.probability(batch).log()
        self.total += batch.mean(losses) * len(batch.codes)
        self.images += len(batch.codes)

    def pop_nats(self) -> float:
        nats = self.total / self.images
        self.total, self.images = 0.0, 0
        return nats


class Unigram(CountBaseline):
    """The frequency of each value in a channel, with one added to its count."""

    name = "unigram"

    def __init__(self, codec: Codec, head: HeadSpec):
        super().__init__(codec, head)
        self.counts = torch.ones(len(self.channel), self.vocab_size, dtype=torch.float64)

    def fit(self, batch: MaskedCodes) -> None:
        for channel, codes in enumerate(batch.codes.unbind(1)):
            self.counts[channel] += torch.bincount(codes.flatten(), minlength=self.vocab_size)

    @property
    def frequencies(self) -> Float[Tensor, "C K"]:
        return self.counts / self.counts.sum(1, keepdim=True)

    @property
    def modes(self) -> list[int]:
        return list(self.counts.argmax(1).tolist())

    def probability(self, batch: MaskedCodes) -> CodeValues:
        return self.frequencies[self.channel, batch.codes]

    def mean(self, batch: MaskedCodes) -> CodeValues:
        return (self.frequencies @ self.levels)[:, None, None].expand(batch.codes.shape)


class PairBaseline(CountBaseline):
    """The frequency of each value given that of one other code, its context, smoothed by the unigram."""

    def __init__(self, codec: Codec, head: HeadSpec):
        super().__init__(codec, head)
        self.unigram = Unigram(codec, head)
        self.counts = torch.zeros(len(self.channel), self.vocab_size, self.vocab_size, dtype=torch.float64)

    @classmethod
    def applies(cls, codec: Codec, head: HeadSpec) -> bool:
        return super().applies(codec, head) and codec.vocab_size**2 <= MAX_PAIRS

    @abc.abstractmethod
    def context(self, batch: MaskedCodes) -> CodeMap:
        """Return the context of each code; -1 for none, which leaves the unigram."""

    def fit(self, batch: MaskedCodes) -> None:
        self.unigram.fit(batch)
        context = self.context(batch)
        pairs = context * self.vocab_size + batch.codes
        counted = batch.in_loss & (context >= 0)
        for channel in range(len(self.counts)):
            chosen = pairs[:, channel][counted[:, channel]]
            found = torch.bincount(chosen, minlength=self.vocab_size**2)
            self.counts[channel] += found.view(self.vocab_size, self.vocab_size)

    def probability(self, batch: MaskedCodes) -> CodeValues:
        context = self.context(batch)
        sums = self.counts[self.channel, context.clamp(min=0), batch.codes]
        return self._smoothed(context, sums, self.unigram.probability(batch))

    def mean(self, batch: MaskedCodes) -> CodeValues:
        context = self.context(batch)
        sums = (self.counts @ self.levels)[self.channel, context.clamp(min=0)]
        return self._smoothed(context, sums, self.unigram.mean(batch))

    def _smoothed(self, context: CodeMap, sums: CodeValues, unigram: CodeValues) -> CodeValues:
        counts = self.counts.sum(2)[self.channel, context.clamp(min=0)]
        return torch.where(context >= 0, (sums + PAIR_PRIOR * unigram) / (counts + PAIR_PRIOR), unigram)


class LeftNeighbor(PairBaseline):
    """A code given the one to its left."""

    name = "left neighbor"

    def context(self, batch: MaskedCodes) -> CodeMap:
        return pad(batch.codes[..., :-1], (1, 0), value=-1)


class TopNeighbor(PairBaseline):
    """A code given the one above it."""

    name = "top neighbor"

    def context(self, batch: MaskedCodes) -> CodeMap:
        return pad(batch.codes[..., :-1, :], (0, 0, 1, 0), value=-1)


def lossless_file(image: Image.Image, format: str) -> bytes:
    """Return the content of a file of one of FILE_OPTIONS."""
    content = io.BytesIO()
    image.save(content, format=format, **FILE_OPTIONS[format])
    return content.getvalue()


class LosslessFile(Baseline):
    """The bits of files with many images side by side: a file of one small image is mostly its header."""

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


FROM_EARLIER_CODES = (Unigram, LeftNeighbor, TopNeighbor, PNGFile, WebPFile)


def _mosaic(images: Images) -> Pixels:
    columns = math.isqrt(len(images) - 1) + 1
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
