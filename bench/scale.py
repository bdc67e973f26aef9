"""Images a second of training in one and in several processes, each with one thread of a CPU or a GPU.

    python bench/scale.py --ranks 1 2                     # CPU; prints JSON, bench/results/scale-cpu.json
    python bench/scale.py --ranks 1 2 4 8 --device cuda   # GPUs: NCCL

A step has as many images for any number of processes (strong scaling). Each condition is a whole command,
whose first steps are left out. Conditions take turns.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cells import print_result
from speed.timing import spread

SETTINGS = ["data.source=translated-digits", "log_every=1", "evaluate_images=16", "num_test_images=16"]
RECIPE, SIZES = "igpt.translated_digits", ["depth=4", "width=128", "batch_size=32", "steps=13"]
WARM_UP = 3  # steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    rates: dict[tuple[int, str], list[float]] = {}
    for _ in range(given.repeats):
        for count in given.ranks:
            for parallel in ("ddp", "fsdp") if count > 1 else ("one process",):
                rates.setdefault((count, parallel), []).append(measure(given, count, parallel))
    alone = spread(rates[1, "one process"])["median"]
    print_result(
        "training in several processes",
        given.device,
        recipe=RECIPE,
        settings=SIZES,
        scaling="strong",
        conditions=[
            {
                "ranks": count,
                "parallel": parallel,
                "images_per_second": spread(found),
                "efficiency": spread(found)["median"] / alone / count,
            }
            for (count, parallel), found in rates.items()
        ],
    )


def measure(given: Any, count: int, parallel: str) -> float:
    settings = [*SETTINGS, *SIZES]
    if parallel != "one process":
        settings.append(f"parallel={parallel}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = ["pretrain", RECIPE, *settings, "--device", given.device, "--out", str(out)]
        words += ["--devices", str(count)] if count > 1 else []
        subprocess.run(
            [sys.executable, "-m", "isopix", *words],
            check=True,
            capture_output=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        records = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    steps = {each["step"]: each for each in records if each["kind"] == "train"}
    first, last = steps[WARM_UP], steps[max(steps)]
    return float((last["images"] - first["images"]) / (last["seconds"] - first["seconds"]))


if __name__ == "__main__":
    main()
