"""Batches: an endless stream of training batches, as a pure function of (seed, step)."""

from dataclasses import dataclass

import torch

from isopix.core.memory import free_memory
from isopix.core.random import generator
from isopix.core.types import Images, Labels
from isopix.data.augment import AugmentationSpec, NoAugmentation
from isopix.data.prefetch import Prefetch, num_workers
from isopix.data.splits import Indices, Split

NO_AUGMENTATION = NoAugmentation()


def steps_per_epoch(num_images: int, batch_size: int) -> int:
    """Return ceil(num_images / batch_size): 352 for 45,000 images in batches of 128."""
    return -(-num_images // batch_size)


class ShuffledIndices:
    """The indices, below `count`, of each step's batch: a new random permutation every epoch.

    Sample j of step s is number s * batch_size + j of the stream; its epoch is that over `count`.
    """

    def __init__(self, count: int, *, batch_size: int, seed: int, purpose: str):
        self.count, self.batch_size, self.seed, self.purpose = count, batch_size, seed, purpose
        self._epoch, self._order = 0, self._permutation(0)

    def indices(self, step: int) -> Indices:
        """Return the indices of a step; a batch may span two epochs."""
        samples = torch.arange(step * self.batch_size, (step + 1) * self.batch_size)
        epochs, positions = samples // self.count, samples % self.count
        return torch.cat(
            [self._of(e)[positions[epochs == e]] for e in range(int(epochs[0]), int(epochs[-1]) + 1)]
        )

    def _of(self, epoch: int) -> Indices:
        if epoch != self._epoch:  # cached: drawing a million indices takes longer than a batch
            self._epoch, self._order = epoch, self._permutation(epoch)
        return self._order

    def _permutation(self, epoch: int) -> Indices:
        return torch.randperm(self.count, generator=generator(self.seed, self.purpose, epoch))


@dataclass(frozen=True)
class StepReader:
    """Reads the augmented images of a step: a function of (seed, step), in whichever process.

    Of encoded images only the `own` ones of a batch are decoded, if they are given; the others are black.
    """

    split: Split
    order: ShuffledIndices
    augment: AugmentationSpec
    seed: int
    own: slice | None = None

    def __call__(self, step: int) -> Images:
        indices = self.order.indices(step)
        split = self.split if self.own is None else self.split.decoding_only(indices[self.own])
        return self.augment.sample(split, indices, generator(self.seed, "augment", step))


class Batches:
    """Shuffled, augmented batches of a split: every image once per epoch.

    Images that fit in half of the device's free memory are kept there as uint8 and indexed there. Encoded
    ones are decoded in `workers` processes (see `num_workers`), which `close` ends, and only those that are
    this process's `own` of each batch. Raises ValueError for a batch size below 1 and for a split without
    images.
    """

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
        augment: AugmentationSpec = NO_AUGMENTATION,
        workers: int | None = None,
        own: slice | None = None,
    ):
        if batch_size < 1:
            raise ValueError(f"batch size is {batch_size}; allowed: 1 or more")
        if len(split) == 0:
            raise ValueError("the training split has no images")
        self.device = torch.device(device)
        fits = split.is_decoded and split.nbytes <= free_memory(self.device) // 2
        self.split = split.to(self.device) if fits else split
        self.batch_size, self.seed, self.augment = batch_size, seed, augment
        self.order = ShuffledIndices(len(split), batch_size=batch_size, seed=seed, purpose="order")
        self.read = StepReader(self.split, self.order, augment, seed, own)
        batch_bytes = batch_size * split.images.shape[1:].numel()
        count = 0 if split.is_decoded else num_workers(workers, batch_bytes)
        on_gpu = self.device.type == "cuda"
        self.prefetch = Prefetch(self.read, workers=count, pin_memory=on_gpu) if count else None

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every image has been used."""
        return steps_per_epoch(len(self.split), self.batch_size)

    def batch(self, step: int) -> tuple[Images, Labels | None]:
        """Return the images and labels of a step, on the device. Raises RuntimeError for damaged images."""
        images = self.read(step) if self.prefetch is None else self.prefetch.batch(step)
        labels = self.split.labels
        if labels is not None:
            labels = labels[self.indices(step)].to(self.device)
        return images.to(self.device, non_blocking=True), labels

    def indices(self, step: int) -> Indices:
        """Return the indices, in the split, of a step's images."""
        return self.order.indices(step)

    def close(self) -> None:
        """End the worker processes; the next batch starts others."""
        if self.prefetch is not None:
            self.prefetch.close()
