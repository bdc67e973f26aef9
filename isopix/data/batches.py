"""Batches: an endless stream of training batches as a pure function of (seed, step)."""

import torch

from isopix.core import device as devices
from isopix.core.random import generator
from isopix.core.types import Images, Labels
from isopix.data.augment import Augmentation, Plain
from isopix.data.splits import Index, Split

PLAIN = Plain()


def steps_per_epoch(images: int, size: int) -> int:
    """Steps until every image has been seen: ceil(images / size); 352 for 45,000 images in batches of 128."""
    return -(-images // size)


class Order:
    """Which of `count` samples each step sees: all of them once an epoch, in an order drawn for each epoch.

    Sample j of step s is number s * size + j of the stream; its epoch is that over `count`.
    """

    def __init__(self, count: int, *, size: int, seed: int, purpose: str):
        self.count, self.size, self.seed, self.purpose = count, size, seed, purpose
        self._epoch, self._order = 0, self._draw(0)

    def numbers(self, step: int) -> Index:
        """The samples of a step; a batch may straddle two epochs."""
        samples = torch.arange(step * self.size, (step + 1) * self.size)
        epochs, positions = samples // self.count, samples % self.count
        return torch.cat(
            [self._of(e)[positions[epochs == e]] for e in range(int(epochs[0]), int(epochs[-1]) + 1)]
        )

    def _of(self, epoch: int) -> Index:
        if epoch != self._epoch:  # the last order is kept: a million numbers take longer to draw than a batch
            self._epoch, self._order = epoch, self._draw(epoch)
        return self._order

    def _draw(self, epoch: int) -> Index:
        return torch.randperm(self.count, generator=generator(self.seed, self.purpose, epoch))


class Batches:
    """Every image once an epoch, in an `Order`; a batch may straddle two.

    Images that fit in half of the device's free memory live there as uint8 and are indexed there.
    """

    def __init__(
        self,
        split: Split,
        *,
        size: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
        augment: Augmentation = PLAIN,
    ):
        if size < 1:
            raise ValueError(f"batch size is {size}; allowed: 1 or more")
        if len(split) == 0:
            raise ValueError("the training split has no images")
        self.device = torch.device(device)
        fits = split.bytes <= devices.free_memory(self.device) // 2
        self.split = split.to(self.device) if fits else split
        self.size, self.seed, self.augment = size, seed, augment
        self.order = Order(len(split), size=size, seed=seed, purpose="order")

    @property
    def steps_per_epoch(self) -> int:
        """Of this split in batches of this size."""
        return steps_per_epoch(len(self.split), self.size)

    def batch(self, step: int) -> tuple[Images, Labels | None]:
        """The images and labels of a step, on the device."""
        index = self.numbers(step)
        images = self.augment.take(self.split, index, generator(self.seed, "augment", step))
        labels = None if self.split.labels is None else self.split.labels[index].to(self.device)
        return images.to(self.device), labels

    def numbers(self, step: int) -> Index:
        """Which images of the split a step sees."""
        return self.order.numbers(step)
