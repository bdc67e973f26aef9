"""`isopix demo` with several seeds: the table of the README, and the picture at the top of docs/index.md.

python bench/demo.py --out runs/demos --seeds 3              # runs what is missing, then collects
python bench/demo.py --out runs/demos --seeds 3 --collect    # writes bench/results and docs/pictures

Every number comes from run folders; the same command resumes an interrupted benchmark.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

from commands import call, environment, test_metrics, training_totals

import isopix
from isopix.storage import log

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "bench" / "results" / "demo.json"
PICTURE = ROOT / "docs" / "pictures" / "completions-translated-digits.png"
SECONDS = "seconds.json"  # of a whole demo
RUNS = ("ar", "bert", "conv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    demos = [options.out / f"seed-{seed}" for seed in range(options.seeds)]
    for seed, demo in enumerate(demos):
        if not options.collect and not (demo / "report.html").is_file():
            run(seed, demo)
    found = collect(demos)
    RESULT.write_text(json.dumps(found, indent=2) + "\n")


def run(seed: int, demo: Path) -> None:
    """Run or resume a demo; the time of one that was not interrupted is kept."""
    resumed, start = demo.exists(), time.perf_counter()
    call("demo", "--seed", str(seed), "--out", str(demo))
    if not resumed:
        (demo / SECONDS).write_text(json.dumps(time.perf_counter() - start))


def collect(demos: list[Path]) -> dict[str, Any]:
    """Return the numbers of every run by seed, and the machine; copy the completions of the first demo."""
    first = demos[0] / "ar"
    [completions] = (first / "samples").glob("completions-*.png")
    shutil.copyfile(completions, PICTURE)
    return {
        **environment(first),
        "threads": [environment(demo / "ar")["threads"] for demo in demos],
        "command": "isopix demo",
        "n": len(demos),
        "seconds": [json.loads(path.read_text()) for demo in demos if (path := demo / SECONDS).is_file()],
        "runs": {name: [numbers(demo / name) for demo in demos] for name in RUNS},
    }


def numbers(path: Path) -> dict[str, Any]:
    recipe, records = isopix.Run(path).recipe, log.read_log(path / "log.jsonl")
    test = test_metrics(path)
    [free] = [each["nats"] for each in records if each["kind"] == "baselines" and each["held_out"] == "test"]
    best = min(free, key=lambda name: float(free[name]))
    [probe] = [json.loads(each.read_text()) for each in (path / "probes").glob("probe-*.json")]
    return {
        "recipe": recipe.name,
        "seed": recipe.train.seed,
        "loss_nats": test["loss_nats"],
        "loss_images": test["images"],
        "learning_free": {"name": best, "nats": free[best]},
        "images_seen": training_totals(path)["images_seen"],
        "probe": {key: probe[key] for key in ("network", "gain")},
        "baselines": {name: probe["baselines"][name] for name in ("untrained", "raw pixels")},
    }


if __name__ == "__main__":
    main()
