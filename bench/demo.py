"""`isopix demo` with several seeds: the table and the picture at the top of the README.

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

from commands import call, environment

from isopix.reporting.run_record import RunRecord, read_run
from isopix.reporting.training import baseline_losses, held_out_loss, uniform_classes
from isopix.storage import log
from isopix.storage.run_folder import RunFolder

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "bench" / "results" / "demo.json"
PICTURE = ROOT / "docs" / "pictures" / "completions-translated-digits.png"
SECONDS = "seconds.json"  # of a whole demo, beside its folder
RUNS = ("ar", "bert", "conv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    parents = [options.out / f"seed-{seed}" for seed in range(options.seeds)]
    for seed, parent in enumerate(parents):
        if not options.collect and not (parent / "1" / "report.html").is_file():
            run(seed, parent)
    found = collect([parent / "1" for parent in parents])
    RESULT.write_text(json.dumps(found, indent=2) + "\n")


def run(seed: int, parent: Path) -> None:
    """Run or resume a demo; the time of one that was not interrupted is kept."""
    resumed, start = parent.exists(), time.perf_counter()
    call("demo", "--seed", str(seed), "--out", str(parent))
    if not resumed:
        (parent / SECONDS).write_text(json.dumps(time.perf_counter() - start))


def collect(demos: list[Path]) -> dict[str, Any]:
    """Return the numbers of every run by seed, and the machine; copy the completions of the first demo."""
    first = demos[0] / "ar"
    [completions] = (first / "samples").glob("completions-*.png")
    shutil.copyfile(completions, PICTURE)
    picture = json.loads(completions.with_suffix(".json").read_text())
    return {
        **environment(first),
        "threads": [environment(demo / "ar")["threads"] for demo in demos],
        "command": "isopix demo",
        "n": len(demos),
        "seconds": [
            json.loads(path.read_text()) for demo in demos if (path := demo.parent / SECONDS).is_file()
        ],
        "runs": {name: [numbers(demo / name) for demo in demos] for name in RUNS},
        "low_data": [low_data(demo / "ar") for demo in demos],
        "picture": {key: picture[key] for key in ("seed", "temperature", "rows", "split")},
    }


def numbers(path: Path) -> dict[str, Any]:
    run = read_run(RunFolder.open(path))
    assert run.recipe is not None, f"{path} is not finished"
    assert run.probe is not None, f"{path} is not probed"
    baselines = baseline_losses(run)
    assert baselines is not None, f"{path} has no learning-free baselines"
    training = [each for each in log.read_log(path / "log.jsonl") if each["kind"] == "train"]
    report = run.probe.report.to_dict()
    return {
        "recipe": run.recipe.name,
        "seed": run.recipe.train.seed,
        **loss(run),
        "learning_free": {"name": baselines.best, "nats": baselines.nats[baselines.best]},
        "images_seen": training[-1]["images"],
        "probe": {key: report[key] for key in ("network", "gain")},
        "baselines": {name: report["baselines"][name] for name in ("untrained", "raw pixels")},
    }


def loss(run: RunRecord) -> dict[str, Any]:
    """Return the test loss and the number of values of a predicted code."""
    found = held_out_loss(run)
    assert found is not None, f"{run.path} is not evaluated"
    return {"loss_nats": found.nats, "loss_images": found.images, "values": uniform_classes(run)}


def low_data(path: Path) -> dict[str, Any]:
    [record] = (path / "low-data").glob("*.json")
    return dict(json.loads(record.read_text())["results"])


if __name__ == "__main__":
    main()
