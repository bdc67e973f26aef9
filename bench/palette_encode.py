"""How fast is exact palette encoding, beside the nearest-colour search of Hugging Face's ImageGPT processors?

    python bench/palette_encode.py --images 256 --whole 10000 --repeats 7 --threads 1

Images are CIFAR-10's from $ISOPIX_TEST_DATA/cifar10, or else digits; the palette is OpenAI's from there, or
else fitted to the images. Ours starts from uint8 images. Theirs starts from pixels that are normalised and
laid out already, which favours it. Both run in turn, at several batch sizes, with our table built before; one
more row encodes a whole data set and includes building the table, once each.
`disagreements` counts codes that differ from ours, which are exact. One process, equal threads.
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
from measure import alternate, answer, ratio, seconds
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
WHOLE_BATCH = 128
PEER_SECONDS = 60.0  # a peer that would take longer encodes a part, and its time is scaled

Search = Callable[[Tensor], Int[Tensor, " P"]]


def main() -> None:
    """Encode the same images by both, compare the codes, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"images": 256, "whole": 10_000, "repeats": 7, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    source, test = real_images(options.whole)
    images = test[: options.images]
    palette = real_palette(images)
    with threadpool_limits(options.threads):
        start = time.perf_counter()
        palette.build_table()
        build = time.perf_counter() - start
        measured = [measure(searches(palette, images), batch, options.repeats) for batch in BATCHES]
        measured.append(measure_whole(palette, test))
    answer(
        "finding the nearest of the palette's colours for every pixel",
        images=f"{len(images)} of {source}",
        colours=palette.vocab_size,
        table_build_seconds=build,
        ratios=[row for rows in measured for row in rows],
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
    """Ours from images; theirs from normalised pixels, to the indices of the nearest clusters."""
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
    """All images in batches by each search in turn, and in how many codes the peers differ from ours."""

    def codes(name: str) -> Tensor:
        search, inputs = searches[name]
        return torch.cat([search(part) for part in torch.split(inputs, batch)])

    times = alternate({name: partial(codes, name) for name in searches}, repeats=repeats, warmup=1)
    exact, what = codes("isopix"), f"palette encoding, batches of {batch}"
    return [
        {
            **ratio(what, f"transformers {transformers.__version__} {name}", times["isopix"], times[name]),
            "disagreements": int((codes(name) != exact).sum()),
            "pixels": len(exact),
        }
        for name in searches
        if name != "isopix"
    ]


def measure_whole(palette: Palette, images: Images) -> list[dict[str, Any]]:
    """All images once, from a palette that has no table yet; a slow peer encodes the first of them alone."""
    fresh = Palette(palette.colors, GRID)

    def encoded(count: int, search: Search, inputs: Tensor) -> float:
        return seconds(lambda: [search(part) for part in torch.split(inputs[:count], WHOLE_BATCH)])

    peers = searches(fresh, images)
    search, inputs = peers.pop("isopix")
    ours = seconds(fresh.build_table) + encoded(len(images), search, inputs)
    rows = []
    for name, (search, inputs) in peers.items():
        guess = encoded(WHOLE_BATCH, search, inputs) * len(images) / min(WHOLE_BATCH, len(images))
        part = len(images) if guess < PEER_SECONDS else int(len(images) * PEER_SECONDS / guess)
        theirs = encoded(part, search, inputs) * len(images) / part
        scaled = "" if part == len(images) else f", peer's time scaled from {part:,}"
        what = f"palette encoding, {len(images):,} images and building the table{scaled}"
        rows.append(ratio(what, f"transformers {transformers.__version__} {name}", [ours], [theirs]))
    return rows


if __name__ == "__main__":
    main()
