"""Time to read CIFAR-10 (Parquet, lossless) the first time and from the cache. Prints JSON.

    python bench/read_cifar10.py FOLDER [--repeats 3]

Targets on two cores: under 30 s first, under 3 s from the cache, both hashing every byte of the source.
"""

import argparse
import tempfile
from pathlib import Path

import PIL
import torch
from measure import print_result
from speed.timing import Stopwatch, spread

from isopix.data.augment import NoAugmentation, PadCropFlip
from isopix.data.batches import Batches
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset

seconds = Stopwatch(torch.device("cpu")).seconds


def main() -> None:
    """Read the folder without and with the cache, then load batches."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    data = DataConfig(source=str(options.folder), rows=32, cols=32)
    first, cached = [], []
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as cache:
            first.append(seconds(lambda: load_dataset(data, cache=Path(cache))))  # called at once
            cached.append(seconds(lambda: load_dataset(data, cache=Path(cache))))
            images = load_dataset(data, cache=Path(cache))
    print_result(
        "reading CIFAR-10, and throughput of batches of 128 images on the CPU",
        pillow=PIL.__version__,
        images={"train": len(images.train), "validation": len(images.validation), "test": len(images.test)},
        first_seconds=spread(first),
        cached_seconds=spread(cached),
        no_augmentation_images_per_second=batch_rate(images, NoAugmentation()),
        pad_crop_flip_images_per_second=batch_rate(images, PadCropFlip()),
    )


def batch_rate(images: ImageDataset, augment: NoAugmentation | PadCropFlip, steps: int = 200) -> int:
    """Return the images per second of training batches."""
    batches = Batches(images.train, batch_size=128, augment=augment)
    return round(128 * steps / seconds(lambda: [batches.batch(step) for step in range(steps)]))


if __name__ == "__main__":
    main()
