"""What benchmarks of whole runs share: they call the command line and read the run folders."""

import json
import statistics
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import isopix
from isopix.core.text import command_line
from isopix.storage import log

ENVIRONMENT = ("device", "threads", "torch", "pillow", "python", "isopix", "images")
SEEDS, DRAWS = range(3), range(5)  # of weights and batches, and of the labels
ENDS = ("finetuned", "scratch")
COMPARED = ("seeds", "draws", "num_images", "accuracies", "baseline_accuracies", "difference")


def run_benchmark(
    description: str | None,
    *,
    names: Sequence[str],
    result: Path,
    run: Callable[[Sequence[str], Sequence[int], str, Path], None],
    collect: Callable[[Path], dict[str, Any]],
) -> None:
    """Parse the options of a benchmark: `run` what is missing of some recipes and seeds, or `collect`."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=sorted(names))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    if options.collect:
        result.write_text(json.dumps(collect(options.out), indent=2) + "\n")
        return
    run([options.only] if options.only else names, options.seeds, options.data, options.out)


def train(run: Path, *words: str) -> None:
    if not finished(run):
        call(*words, "--out", str(run))


def fine_tune(folder: Path, recipe: str, *settings: str, labels: str, data: str, seed: int) -> None:
    """Fine-tune a pre-trained run and train its recipe from scratch, on the same draws of the labels."""
    for draw in DRAWS:
        words = (*settings, "--labels", labels, "--subset", str(draw), "--data", data, "--seed", str(seed))
        for end, source in zip(ENDS, ([str(folder)], [recipe, "--from-scratch"]), strict=True):
            train(fine_tuned(folder, end, draw), "finetune", *source, *words)


def fine_tuned(folder: Path, end: str, draw: int) -> Path:
    """Return the run folder of one draw, fine-tuned or from scratch."""
    return folder.with_name(f"{folder.name}-{end}-{draw}")


def run_once(folder: Path, *words: str) -> None:
    if not any(folder.glob("*.json")):
        call(*words)


def call(*words: str) -> None:
    sys.stderr.write(f"$ {command_line(*words)}\n")
    subprocess.run([sys.executable, "-m", "isopix", *words], check=True)


def environment(run: Path) -> dict[str, Any]:
    found = json.loads((run / "environment.json").read_text())
    return {key: found[key] for key in ENVIRONMENT}


def finished(run: Path) -> bool:
    file = run / "log.jsonl"
    return file.is_file() and any(each.get("split") == "test" for each in log.read_log(file))


def finished_seeds(out: Path, name: str) -> list[int]:
    folders = {seed: out / f"{name}-{seed}" for seed in SEEDS}
    return [
        seed
        for seed, folder in folders.items()
        if all(finished(fine_tuned(folder, end, draw)) for end in ENDS for draw in DRAWS)
    ]


def test_metrics(run: Path) -> dict[str, Any]:
    return next(each for each in reversed(log.read_log(run / "log.jsonl")) if each.get("split") == "test")


def training_totals(run: Path) -> dict[str, float]:
    """Return the training images processed, with repetition, and the seconds."""
    records = [each for each in log.read_log(run / "log.jsonl") if each["kind"] == "train"]
    return {"images_seen": records[-1]["images"], "training_seconds": records[-1]["seconds"]}


def pretraining_results(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the test loss of pre-trained runs, their best learning-free baseline and length of training."""
    totals = list(map(training_totals, folders))
    return {
        "loss_nats": spread([test_metrics(folder)["loss_nats"] for folder in folders]),
        "baseline_nats": spread(list(map(baseline_nats, folders))),
        "images_seen": totals[0]["images_seen"],
        "training_seconds": spread([each["training_seconds"] for each in totals]),
    }


def baseline_nats(run: Path) -> float:
    """Return the lowest loss of the learning-free baselines on the test images."""
    records = log.read_log(run / "log.jsonl")
    [nats] = [each["nats"] for each in records if each["kind"] == "baselines" and each["held_out"] == "test"]
    return float(min(nats.values()))


def fine_tuning_results(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the paired comparison with training from scratch, over seeds and draws of the labels."""
    groups = [[fine_tuned(each, end, draw) for each in folders for draw in DRAWS] for end in ENDS]
    record = json.loads(isopix.compare(*groups[0], baseline=groups[1]).json())
    first = groups[0][0]
    return {
        "finetuned": spread([value for row in record["accuracies"] for value in row]),
        "scratch": spread([value for row in record["baseline_accuracies"] for value in row]),
        "comparison": {key: record[key] for key in COMPARED},
        "finetuning": {
            "images_seen": training_totals(first)["images_seen"],
            "labeled": environment(first)["images"]["train"],
            "validation": environment(first)["images"]["validation"],
        },
    }


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return the number of values, their mean and their standard deviation (n - 1)."""
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"n": len(values), "mean": statistics.mean(values), "std": std, "values": list(values)}
