"""Time and memory of preparing images of tar shards and of training on them, as their number grows.

    python bench/large_data.py                                # 10^4 to 2 * 10^6 images; prints JSON
    python bench/large_data.py --figure docs/pictures/large-data.png    # of the committed results

Images are small JPEGs in WebDataset's layout, 10,000 a shard. Each condition is a process of its own, whose
peak of resident memory counts mapped files too; it reads the source, prepares it, opens it again, and trains.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from cells import print_result, read
from PIL import Image
from speed.timing import status_bytes

import isopix
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset, open_source
from isopix.plots import style

SIDE, TRAINED_SIDE = 32, 16  # pixels
PER_SHARD = 10_000
STAGES = {"prepare": "preparing", "train": "the whole run, 100 steps"}
CLASSES = 10
STORES = ("encoded", "pixels")
SETTINGS = ["depth=2", "width=32", "batch_size=64", "steps=100", "evaluate_images=64", "num_test_images=64"]


def main() -> None:
    """Make the shards, measure all numbers of images and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", nargs="+", type=int, default=[10_000, 100_000, 2_000_000])
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--figure", type=Path, help="draw the committed results, and measure nothing")
    given = parser.parse_args()
    if given.figure:
        plot(read("large-data-cpu.json")).savefig(given.figure)
        return
    if given.measure:
        print(json.dumps(measure(Path(given.measure[0]), given.measure[1])))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        conditions = [run(make_shards(folder, count), each) for count in given.counts for each in STORES]
    print_result(
        "images in tar shards",
        "cpu",
        side=SIDE,
        trained_side=TRAINED_SIDE,
        per_shard=PER_SHARD,
        settings=SETTINGS,
        conditions=conditions,
    )


@style.figure_style()
def plot(found: dict[str, Any]) -> style.Figure:
    """Plot the peak of memory and the rate of preparation by the number of images."""
    figure = style.new_figure(2.8, 8.0)
    memory, rate = figure.subplots(1, 2)
    for color, store in zip(style.COLORS, STORES, strict=False):
        rows = [each for each in found["conditions"] if each["store"] == store]
        images = [each["images"] for each in rows]
        for marker, stage in (("s--", "prepare"), ("o-", "train")):
            peaks = [each["stages"][stage]["peak_bytes"] / 1e9 for each in rows]
            memory.plot(images, peaks, marker, color=color, label=f"{store}: {STAGES[stage]}")
        rates = [each["images"] / each["stages"]["prepare"]["seconds"] for each in rows]
        rate.plot(images, rates, "s--", color=color, label=store)
    memory.set(ylabel="Peak of resident memory (GB)")
    rate.set(ylabel="Images prepared per second")
    for axes in (memory, rate):
        axes.set(xlabel="Images", xscale="log", ylim=(0, None))
        axes.legend()
    side = found["side"]
    style.add_key(figure, f"tar shards of JPEG images of {side}x{side} pixels; one run each")
    return figure


def make_shards(folder: Path, count: int) -> Path:
    """Return a folder of this many different images: smooth noise, with a label each."""
    target = folder / f"images-{count}"
    for number, first in enumerate(range(0, count, PER_SHARD)):
        shard = target / f"train-{number:06d}.tar"
        target.mkdir(parents=True, exist_ok=True)
        size = min(PER_SHARD, count - first)
        noise = np.random.default_rng(number).integers(0, 256, (size, 6, 6, 3), dtype=np.uint8)
        with tarfile.open(shard, "w") as archive:
            for i, pixels in enumerate(noise):
                image = Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
                content = io.BytesIO()
                image.save(content, "JPEG", quality=75)
                add(archive, f"{first + i:08d}.jpg", content.getvalue())
                add(archive, f"{first + i:08d}.cls", str((first + i) % CLASSES).encode())
    return target


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def run(source: Path, store: str) -> dict[str, Any]:
    """Return what `measure` measures in a process of its own with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "ISOPIX_CACHE": cache}
        words = [sys.executable, __file__, "--measure", str(source), store]
        found = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE)
        result: dict[str, Any] = json.loads(found.stdout)
        result["cache_bytes"] = sum(path.stat().st_size for path in Path(cache).rglob("*") if path.is_file())
    return result


def measure(source: Path, store: str) -> dict[str, Any]:
    """Return seconds and the peak of resident memory so far, in bytes, of each stage."""
    stages: dict[str, dict[str, float]] = {}
    started = time.perf_counter()

    def stage(name: str) -> None:
        nonlocal started
        now = time.perf_counter()
        stages[name] = {"seconds": now - started, "peak_bytes": status_bytes("VmHWM")}
        started = now

    config = DataConfig(source=str(source), rows=TRAINED_SIDE, cols=TRAINED_SIDE, store=store, workers=0)  # type: ignore[arg-type]
    stage("import")
    count = open_source(config)().splits["train"].num_images
    stage("read source")
    load_dataset(config)
    stage("prepare")
    load_dataset(config)
    stage("open again")
    with tempfile.TemporaryDirectory() as folder:
        isopix.pretrain(
            "igpt.tiny",
            *SETTINGS,
            f"data.rows={TRAINED_SIDE}",
            f"data.cols={TRAINED_SIDE}",
            f"store={store}",
            "workers=0",
            data=source,
            out=Path(folder) / "run",
        )
        stage("train")
    return {"images": count, "store": store, "stages": stages}


if __name__ == "__main__":
    main()
