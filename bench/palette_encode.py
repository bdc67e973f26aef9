"""Speed of exact palette encoding, compared with the color search of Hugging Face's ImageGPT processors.

    python bench/palette_encode.py --images 256 --dataset 10000 --repeats 7 --threads 1

Images are CIFAR-10 from $ISOPIX_TEST_DATA/cifar10, or else digits; the palette is OpenAI's from there, or
fitted to the images. isopix starts from uint8 images; the peers start from pixels that are already normalized
and flattened, which favors them. They run interleaved at several batch sizes, with the lookup table built
before; one more row encodes a whole dataset once, including building the table. `mismatches` counts codes
that differ from the exact ones of isopix. One process, the same number of threads.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from einops import rearrange
from jaxtyping import Int
from measure import alternate, compare, print_result, seconds
from threadpoolctl import threadpool_limits
from torch import Tensor
from transformers.models.imagegpt.image_processing_pil_imagegpt import color_quantize

from isopix.codecs import kmeans, palette_file
from isopix.codecs.palette import Palette
from isopix.core.types import Grid, Images
from isopix.data.dataset import DataConfig, load_dataset

try:
    from transformers.models.imagegpt.image_processing_imagegpt import color_quantize_torch
except ModuleNotFoundError:  # transformers' torch processor needs torchvision
    color_quantize_torch = None

GRID = Grid(32, 32)
BATCHES = (1, 16, 128)
DATASET_BATCH = 128
PEER_SECONDS = 60.0  # a peer that would take longer encodes a part of the images, and its time is scaled

Search = Callable[[Tensor], Int[Tensor, " P"]]


def main() -> None:
    """Encode the same images with all, compare the codes, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"images": 256, "dataset": 10_000, "repeats": 7, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    source, test = real_images(options.dataset)
    images = test[: options.images]
    palette = real_palette(images)
    with threadpool_limits(options.threads):
        start = time.perf_counter()
        palette.build_table()
        build = time.perf_counter() - start
        measured = [measure(searches(palette, images), batch, options.repeats) for batch in BATCHES]
        measured.append(measure_dataset(palette, test))
    print_result(
        "nearest palette color of every pixel",
        images=f"{len(images)} of {source}",
        num_colors=palette.vocab_size,
        table_build_seconds=build,
        comparisons=[row for rows in measured for row in rows],
    )


def real_images(count: int) -> tuple[str, Images]:
    folder = Path(os.environ.get("ISOPIX_TEST_DATA", "")) / "cifar10"
    data = DataConfig(
        source=str(folder) if folder.is_dir() else "digits", rows=GRID.rows, cols=GRID.cols, limit=count
    )
    loaded = load_dataset(data)
    return loaded.name, loaded.test.images


def real_palette(images: Images) -> Palette:
    path = Path(os.environ.get("ISOPIX_TEST_DATA", "")) / "openai-kmeans-centers.npy"
    if path.is_file():
        return Palette(palette_file.read_palette(path).colors, GRID)
    return Palette(kmeans.fit_palette(images, 16).colors, GRID)


def searches(palette: Palette, images: Images) -> dict[str, tuple[Search, Tensor]]:
    """Return the searches and their inputs: images for isopix, normalized pixels for the peers."""
    clusters = palette.colors / 127.5 - 1
    pixels = rearrange(images / 127.5 - 1, "b c h w -> b (h w) c").contiguous()
    found: dict[str, tuple[Search, Tensor]] = {
        "isopix": (lambda part: palette.encode(part).flatten(), images),
        "color_quantize": (
            lambda part: torch.from_numpy(color_quantize(part.numpy(), clusters.numpy())),
            pixels,
        ),
    }
    if color_quantize_torch is not None:
        found["color_quantize_torch"] = (
            lambda part: color_quantize_torch(part.flatten(0, 1), clusters),
            pixels,
        )
    return found


def measure(searches: dict[str, tuple[Search, Tensor]], batch: int, repeats: int) -> list[dict[str, Any]]:
    """Encode all images in batches with each search, and count the codes in which the peers differ."""

    def codes(name: str) -> Tensor:
        search, inputs = searches[name]
        return torch.cat([search(part) for part in torch.split(inputs, batch)])

    times = alternate({name: partial(codes, name) for name in searches}, repeats=repeats, warmup=1)
    exact, task = codes("isopix"), f"palette encoding, batch {batch}"
    return [
        {
            **compare(task, f"transformers {transformers.__version__} {name}", times["isopix"], times[name]),
            "mismatches": int((codes(name) != exact).sum()),
            "pixels": len(exact),
        }
        for name in searches
        if name != "isopix"
    ]


def measure_dataset(palette: Palette, images: Images) -> list[dict[str, Any]]:
    """Encode all images once, from a palette without a table; a slow peer encodes only the first of them."""
    fresh = Palette(palette.colors, GRID)

    def encode_seconds(count: int, search: Search, inputs: Tensor) -> float:
        return seconds(lambda: [search(part) for part in torch.split(inputs[:count], DATASET_BATCH)])

    peers = searches(fresh, images)
    search, inputs = peers.pop("isopix")
    own = seconds(fresh.build_table) + encode_seconds(len(images), search, inputs)
    rows = []
    for name, (search, inputs) in peers.items():
        estimate = (
            encode_seconds(DATASET_BATCH, search, inputs) * len(images) / min(DATASET_BATCH, len(images))
        )
        part = len(images) if estimate < PEER_SECONDS else int(len(images) * PEER_SECONDS / estimate)
        other = encode_seconds(part, search, inputs) * len(images) / part
        scaled = "" if part == len(images) else f", peer scaled from {part:,}"
        task = f"palette encoding, {len(images):,} images, including table build{scaled}"
        rows.append(compare(task, f"transformers {transformers.__version__} {name}", [own], [other]))
    return rows


if __name__ == "__main__":
    main()
