"""Throughput of shuffled batches with random crops and flips, next to PyTorch's DataLoader over the same
arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import UInt8
from speed import networks
from speed.benchmark import OWN, TINY, Benchmark, Measured, Size
from speed.numerics import NumericsError
from speed.timing import Stopwatch, Work
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from isopix.core.device import available_cores
from isopix.core.types import Images
from isopix.data.augment import PadCropFlip
from isopix.data.batches import Batches
from isopix.data.splits import Split

PAD = 4
CHECKED_BATCHES = 2
BATCH = 128
Image = UInt8[Tensor, "3 H W"]


@dataclass(frozen=True)
class BatchesSize(Size):
    """The images of an epoch, their side in pixels, and whether the peer also tries worker processes."""

    images: int
    side: int = 32
    workers: bool = True

    def label(self) -> str:
        return f"{self.images:,} images of {self.side}x{self.side}, batch {BATCH}"


class CropAndFlip(Dataset[Image]):
    """The images, each padded by reflection, cropped and flipped at random as it is read."""

    def __init__(self, images: Images):
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Image:
        image = self.images[index]
        top, left = torch.randint(0, 2 * PAD + 1, (2,)).tolist()
        cropped = padded(image)[:, top : top + image.shape[1], left : left + image.shape[2]]
        return cropped.flip(2) if torch.rand(()) < 0.5 else cropped.contiguous()


def measure_batches(size: BatchesSize, watch: Stopwatch) -> Measured:
    """Compare the batches of an epoch, each side on the device that trains."""
    images = networks.synthetic_photos(size.images, size.side)
    batches = Batches(
        Split(images, None), batch_size=BATCH, device=watch.device, augment=PadCropFlip(pad=PAD)
    )
    checked = require_crops(images, batches)

    def load() -> None:
        for step in range(batches.steps_per_epoch):
            batches.batch(step)

    def loader_of(workers: int) -> Callable[[], None]:
        loader = DataLoader(
            CropAndFlip(images),
            batch_size=BATCH,
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=watch.device.type == "cuda",
        )

        def load_epoch() -> None:
            for batch in loader:
                batch.to(watch.device, non_blocking=True)

        return load_epoch

    counts = sorted({0, available_cores()}) if size.workers else [0]
    peer = {f"{count} workers": Work(call=loader_of(count), items=size.images) for count in counts}
    own = {"": Work(call=load, items=batches.steps_per_epoch * BATCH)}
    timed = watch.alternate({OWN: own, f"torch {torch.__version__} DataLoader": peer})
    return Measured(checked=checked, times=timed.times, errors=timed.errors)


def padded(image: Image) -> UInt8[Tensor, "3 _ _"]:
    return F.pad(image[None], [PAD] * 4, mode="reflect")[0]


def require_crops(images: Images, batches: Batches) -> str:
    """Return how many images of the first batches are one of the crops of theirs, flipped or not.

    Raises NumericsError if one is not.
    """
    count = 0
    for step in range(CHECKED_BATCHES):
        found, _ = batches.batch(step)
        for index, image in zip(batches.order.indices(step).tolist(), found.cpu(), strict=True):
            crops = padded(images[index]).unfold(1, image.shape[1], 1).unfold(2, image.shape[2], 1)
            same = ((crops == each[:, None, None]).all(0).all(-1).all(-1) for each in (image, image.flip(2)))
            if not any(map(torch.any, same)):
                raise NumericsError(f"image {index} of a batch is no crop of image {index} of the dataset")
            count += 1
    return f"{count} images are crops of theirs"


SIZES = {"cpu": BatchesSize(10_000), "cuda": BatchesSize(50_000), TINY: BatchesSize(130, 8, workers=False)}
ABOUT = ("batches with crop and flip", "torch DataLoader", measure_batches)
BENCHMARKS = (Benchmark("batches.crop-and-flip", *ABOUT, SIZES),)
