"""Splits: features of images to learn from, to choose by and to be judged on, and their common scale."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Labels

DEAD = 1e-6  # a feature whose deviation is below this share of its mean only shows float32's rounding
BLOCK = 2**24  # numbers that are turned to float64 at once

Features = Float[Tensor, "F B D"]
PerFeature = Float[Tensor, "F 1 D"]


@dataclass(frozen=True)
class Split:
    """The features of F layers of some images, and the images' classes."""

    features: Features
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def layers(self, first: int, end: int) -> "Split":
        """The same images, some layers alone."""
        return Split(self.features[first:end], self.labels)

    def joined(self) -> "Split":
        """The same images, all layers as one."""
        return Split(rearrange(self.features, "f b d -> 1 b (f d)"), self.labels)

    def copy(self) -> "Split":
        """The same in memory of its own."""
        return Split(self.features.clone(), self.labels)

    def to(self, device: torch.device) -> "Split":
        """The same on that device."""
        return Split(self.features.to(device), self.labels.to(device))

    def blocks(self) -> Iterator["Split"]:
        """The same in runs of images that are small beside the whole."""
        layers, images, width = self.features.shape
        size = max(1, BLOCK // (layers * width))
        for start in range(0, images, size):
            part = slice(start, start + size)
            yield Split(self.features[:, part], self.labels[part])


@dataclass(frozen=True)
class Frame:
    """Features x that are kept as (x - centre) / spread, for then 16 bits are enough for any of them."""

    centre: PerFeature
    spread: PerFeature

    def map(self, change: Callable[[Tensor], Tensor]) -> "Frame":
        """The same change made to both."""
        return Frame(change(self.centre), change(self.spread))


@dataclass(frozen=True)
class Splits:
    """What a probe learns from, chooses by, and is judged on.

    `again` has the test images as they were read under further masks, `frame` what the features were before
    they were rounded, `first` the number of the first layer.
    """

    train: Split
    validation: Split
    test: Split
    again: tuple[Split, ...] = ()
    frame: Frame | None = None
    first: int = 0

    def map(self, change: Callable[[Split], Split]) -> "Splits":
        """The same change made to the features of each."""
        return replace(
            self,
            train=change(self.train),
            validation=change(self.validation),
            test=change(self.test),
            again=tuple(map(change, self.again)),
        )

    def layers(self, first: int, end: int) -> "Splits":
        """The same images, some layers alone."""
        frame = self.frame and self.frame.map(lambda values: values[first:end])
        found = self.map(lambda split: split.layers(first, end))
        return replace(found, frame=frame, first=self.first + first)

    def joined(self) -> "Splits":
        """The same images, all layers as one of as many times the width (iGPT section 4.3)."""
        frame = self.frame and self.frame.map(lambda values: rearrange(values, "f 1 d -> 1 1 (f d)"))
        return replace(self.map(Split.joined), frame=frame)

    def folded(self) -> "Splits":
        """The same with validation's images in train as well."""
        features = torch.cat([self.train.features, self.validation.features], 1)
        return replace(self, train=Split(features, torch.cat([self.train.labels, self.validation.labels])))

    @property
    def readings(self) -> tuple[Split, ...]:
        """The test images under every mask."""
        return (self.test, *self.again)


@dataclass(frozen=True)
class Standard:
    """The scale on which each feature has mean 0 and deviation 1 over some images, in float64.

    A feature that is constant there becomes 0.
    """

    centre: PerFeature
    scale: PerFeature

    def __call__(self, features: Features) -> Features:
        """The features on this scale, in float32."""
        return ((features - self.centre) * self.scale).float()

    def to(self, device: torch.device) -> "Standard":
        """The same on that device."""
        return Standard(self.centre.to(device), self.scale.to(device))

    @staticmethod
    def of(split: Split, frame: Frame | None = None) -> "Standard":
        """That of the images of this split, a block in float64 at a time."""
        first, *others = (block.features for block in split.blocks())
        count, mean, variance = first.shape[1], *_moments(first)
        for more in others:
            number, (centre, spread) = more.shape[1], _moments(more)
            share, shift = number / (count + number), centre - mean
            variance = (1 - share) * variance + share * spread + share * (1 - share) * shift.square()
            mean, count = mean + share * shift, count + number
        deviation, whole = variance.sqrt(), mean
        if frame:
            frame = frame.map(lambda values: values.to(mean))
            deviation, whole = deviation * frame.spread, frame.centre + mean * frame.spread
        return Standard(mean, torch.where(deviation > DEAD * whole.abs(), 1 / variance.sqrt(), 0.0))


def _moments(features: Features) -> tuple[PerFeature, PerFeature]:
    exact = features.double()
    return exact.mean(1, keepdim=True), exact.var(1, keepdim=True, correction=0)


def standardised(splits: Splits) -> Splits:
    """Each feature with mean 0 and deviation 1 over train; one that is constant there becomes 0."""
    standard = Standard.of(splits.train, splits.frame)
    return splits.map(lambda split: replace(split, features=standard(split.features)))
