"""Batches: an endless stream of training batches as a pure function of (seed, step)."""

import torch
from torch import Tensor

from isopix.core import device as devices
from isopix.core.random import generator
from isopix.core.types import Images, Labels
from isopix.data.augment import Augmentation, Plain
from isopix.data.splits import Index, Split

PLAIN = Plain()


class Batches:
    """Every image once an epoch, in an order drawn for each epoch; a batch may straddle two.

    Sample j of step s is number s * size + j of the stream; its epoch is that over the number of images.
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
        fits = split.bytes <= devices.memory_free(self.device) // 2
        self.split = split.to(self.device) if fits else split
        self.size, self.seed, self.augment = size, seed, augment
        self._epoch, self._order = 0, self._draw_order(0)

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every image has been seen: ceil(images / size); 352 for 45,000 images in batches of
        128."""
        return -(-len(self.split) // self.size)

    def batch(self, step: int) -> tuple[Images, Labels | None]:
        """The images and labels of a step, on the device."""
        index = self.numbers(step)
        images = self.augment.take(self.split, index, generator(self.seed, "augment", step))
        labels = None if self.split.labels is None else self.split.labels[index].to(self.device)
        return images.to(self.device), labels

    def numbers(self, step: int) -> Index:
        """Which images of the split a step sees."""
        samples = torch.arange(step * self.size, (step + 1) * self.size)
        epochs, positions = samples // len(self.split), samples % len(self.split)
        return torch.cat(
            [self._order_of(e)[positions[epochs == e]] for e in range(int(epochs[0]), int(epochs[-1]) + 1)]
        )

    def _order_of(self, epoch: int) -> Tensor:
        if epoch != self._epoch:  # the last order is kept: a million numbers take longer to draw than a batch
            self._epoch, self._order = epoch, self._draw_order(epoch)
        return self._order

    def _draw_order(self, epoch: int) -> Tensor:
        return torch.randperm(len(self.split), generator=generator(self.seed, "order", epoch))
