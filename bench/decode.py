"""Images a second that one core decodes, crops and resizes for training, next to PyTorch's DataLoader.

    python bench/decode.py             # prints JSON, bench/results/decode-cpu.json

Files like those of ImageNet are made of scikit-learn's two photographs: crops at 500x375 pixels, of about
100 KB each.

The encoded store reads random crops of 224x224 as `vit.b16` does. The peer is a `torch.utils.data.DataLoader`
over the same files that decodes them with Pillow and makes the same kind of crop with Pillow, with and
without libjpeg's reduced decoding. All run in this process, in turn.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cells import print_result
from PIL import Image
from sklearn.datasets import load_sample_images
from speed.timing import Stopwatch, Work, spread
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import isopix
from isopix.data.augment import NoAugmentation, ScaleCrop
from isopix.data.batches import Batches
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.load import load_dataset
from isopix.recipes import registry

SIDE, BATCH, STEPS = 224, 32, 8
DEVICE = "H200"
FILES, FILE_SIZE, QUALITY = 256, (500, 375), 97
CROP = ScaleCrop(min_side=256, max_side=384, crop=SIDE, flip=0.5)


class Files(Dataset[Tensor]):
    """Random crops of JPEG files, decoded with Pillow, as `CROP` describes them."""

    def __init__(self, files: list[Path], draft: bool):
        self.files, self.draft = files, draft

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        with Image.open(self.files[index]) as image:
            side = int(torch.randint(CROP.min_side, CROP.max_side + 1, ()))
            if self.draft:
                image.draft("RGB", (side, side))
            rgb = image.convert("RGB")
        box = min(rgb.size) * CROP.crop / side
        left, top = (float(torch.rand(())) * (length - box) for length in rgb.size)
        pixels = rgb.resize((SIDE, SIDE), Image.Resampling.BOX, (left, top, left + box, top + box))
        if torch.rand(()) < CROP.flip:
            pixels = pixels.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return torch.from_numpy(np.asarray(pixels).transpose(2, 0, 1).copy())


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:
        folder = make_files(Path(cache) / "photographs")
        files = sorted(folder.rglob("*.jpg"))
        file_bytes = sum(file.stat().st_size for file in files) / len(files)
        config = DataConfig(
            source=str(folder), rows=SIDE, cols=SIDE, store="encoded", holdout=0.0, augment=CROP
        )
        data = load_dataset(config, cache=Path(cache))
        own = {
            "random crops": Work(call=batches(data, CROP), items=BATCH * STEPS),
            "center crops": Work(call=batches(data, NoAugmentation()), items=BATCH * STEPS),
        }
        peer = {name: Work(call=loader(files, draft), items=BATCH * STEPS) for name, draft in DRAFTS.items()}
        watch = Stopwatch(torch.device("cpu"))
        timed = watch.alternate({"isopix": own, f"torch {torch.__version__} DataLoader": peer})
    rates = {
        side: {name: spread([1 / each for each in times.seconds]) for name, times in found.items()}
        for side, found in timed.times.items()
    }
    print_result(
        "images a second that one core decodes for training",
        images=len(files),
        mean_file_bytes=file_bytes,
        side=SIDE,
        batch=BATCH,
        images_per_second=rates,
        crop=CROP.label(),
        needed=needed(),
    )


def needed() -> dict[str, Any]:
    """Return the images a second that a training of `vit.b16` reads on one GPU."""
    plan = isopix.plan("vit.b16")
    recipe = registry.resolve("vit.b16").recipe
    assert recipe.data.augment == CROP, "the crops that are measured are those of the recipe"
    [cost] = [each for each in plan.device_hours if each.device == DEVICE]
    rate = plan.images / (3600 * cost.hours)
    return {"recipe": recipe.name, "device": DEVICE, "mfu": plan.mfu, "images_per_second": rate}


def make_files(folder: Path) -> Path:
    """Return a new folder of crops of two photographs as JPEG files."""
    folder.mkdir(parents=True)
    photographs = [Image.fromarray(pixels) for pixels in load_sample_images().images]
    rng = np.random.default_rng(0)
    for number in range(FILES):
        photograph = photographs[number % len(photographs)]
        height = int(photograph.height * rng.uniform(0.7, 1))
        width = height * FILE_SIZE[0] // FILE_SIZE[1]
        left = int(rng.integers(0, photograph.width - width + 1))
        top = int(rng.integers(0, photograph.height - height + 1))
        box = (left, top, left + width, top + height)
        crop = photograph.resize(FILE_SIZE, Image.Resampling.LANCZOS, box)
        crop.save(folder / f"{number:04d}.jpg", quality=QUALITY)
    return folder


DRAFTS = {"Pillow": False, "Pillow, reduced": True}


def batches(data: ImageDataset, augment: ScaleCrop | NoAugmentation) -> Callable[[], None]:
    """Return what reads STEPS batches of the encoded store in this process."""
    found = Batches(data.train, batch_size=BATCH, augment=augment, workers=0)

    def read() -> None:
        for step in range(STEPS):
            found.batch(step)

    return read


def loader(files: list[Path], draft: bool) -> Callable[[], None]:
    reader = DataLoader(Files(files, draft), batch_size=BATCH, shuffle=True)

    def read() -> None:
        for step, _ in enumerate(reader, start=1):
            if step == STEPS:
                return

    return read


if __name__ == "__main__":
    main()
