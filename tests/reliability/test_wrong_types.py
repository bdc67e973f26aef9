"""Every verb on a run folder with another value in a JSON file: it works, or its error has one line."""

import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import isopix
from tests.reliability.mutations import mutate_json, outcome

QUICK = ["batch_size=4", "checkpoint_every=4", "log_every=2", "evaluate_every=4", "evaluate_images=8"]
QUICK += ["num_test_images=8", "train.steps=8"]
TINY = ["depth=1", "width=8", "heads=1", "codec.num_colors=4", "rows=4", "cols=4", *QUICK]
SAVED = ("probes", "samples", "analysis", "low-data", "evaluations")  # folders that only the report reads
Verb = Callable[[Path], object]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-trained and a fine-tuned run with results of every kind, and one trained from scratch."""
    folder = tmp_path_factory.mktemp("templates")
    pre, tuned = folder / "pre", folder / "tuned"
    isopix.pretrain("igpt.digits", data="digits", limit=40, out=pre, overrides=TINY)
    isopix.finetune(pre, out=tuned, limit=40, overrides=QUICK)
    isopix.finetune("igpt.digits", data="digits", limit=40, out=folder / "scratch", overrides=TINY)
    isopix.probe(pre, limit=40)
    isopix.sample(pre, count=1)
    isopix.verify(pre, limit=8)
    isopix.analyze(pre, limit=4, only=["attention_distance"])
    isopix.low_data(pre, labels=[1], subsets=1, limit=40)
    isopix.evaluate(tuned, limit=40)
    return folder


def verbs(runs: Path, name: str) -> dict[str, Verb]:
    """The functions that read a run folder."""
    both: dict[str, Verb] = {
        "resume": isopix.resume,
        "report": isopix.report,
        "load": isopix.load,
        "metrics": lambda run: isopix.Run(run).metrics,
        "probe": lambda run: isopix.probe(run, limit=20),
        "verify": lambda run: isopix.verify(run, limit=4),
    }
    if name == "tuned":
        return both | {
            "evaluate": lambda run: isopix.evaluate(run, limit=20),
            "compare": lambda run: isopix.compare([run], baseline=[runs / "scratch"]),
        }
    return both | {
        "sample": lambda run: isopix.sample(run, count=1),
        "analyze": lambda run: isopix.analyze(run, limit=4, only=["attention_distance"]),
        "low-data": lambda run: isopix.low_data(run, labels=[1], subsets=1, limit=20),
    }


def mutated(runs: Path, seeds: range, folder: Path) -> Counter[str]:
    """Change one value of a run folder for each seed, run a verb, and count what happens."""
    counts = Counter[str]()
    for seed in seeds:
        chance = random.Random(seed)
        name = chance.choice(["pre", "tuned"])
        run = folder / name
        shutil.copytree(runs / name, run)
        if chance.random() < 0.5:  # there is something to resume
            shutil.rmtree(run / "checkpoints" / "step-00000008")
        file = chance.choice(sorted(run.rglob("*.json*")))
        done = mutate_json(file, chance)
        verb = "report" if file.parent.name in SAVED else chance.choice(list(verbs(runs, name)))
        found = outcome(lambda: verbs(runs, name)[verb](run))  # noqa: B023  called at once
        assert not found.startswith("TRACEBACK"), f"seed {seed}: {verb} with {file.name}: {done}: {found}"
        counts["works" if found == "works" else "is refused"] += 1
        shutil.rmtree(run)
    return counts


def report(counts: Counter[str]) -> None:
    sys.stdout.write(f"\nwrong values in {counts.total()} run folders: {dict(counts)}, 0 tracebacks\n")


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_value_in_a_run_folder_is_no_traceback(runs: Path, tmp_path: Path) -> None:
    report(mutated(runs, range(12), tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore")
def test_none_of_very_many_wrong_values_is_a_traceback(runs: Path, tmp_path: Path) -> None:
    report(mutated(runs, range(12, 1000), tmp_path))
