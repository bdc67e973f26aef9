"""A trial of a study, which a process runs, and the file of its outcome."""

import abc
import multiprocessing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import format_exc
from typing import Any, ClassVar

import torch

from isopix.core.config import from_dict, to_dict
from isopix.core.device import select_device
from isopix.core.signals import handle_stop_signals
from isopix.core.text import naming
from isopix.data.dataset import ImageDataset
from isopix.probing.methods import RidgeProbe
from isopix.recipes.cost import training_flops
from isopix.recipes.recipe import Recipe
from isopix.storage.atomic import exclusive_lock, read_json, write_json
from isopix.studies.results import TrialOutcome

ENVIRONMENT = (
    *("isopix", "commit", "device", "threads", "precision", "torch", "pillow", "python", "platform", "data"),
)


# The probe of networks that are compared by thousands, in closed form, and its images.
RIDGE = RidgeProbe(l2_grid=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0))
PROBED = {"train": 10_000, "validation": 2000, "test": 10_000}


def sampled(data: ImageDataset, counts: Mapping[str, int]) -> ImageDataset:
    """Return at most as many labeled images of each split."""
    data = data.labeled("study")
    return replace(data, **{name: getattr(data, name).sample(count) for name, count in counts.items()})


def recorded_environment(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the outcome of a trial keeps of an environment."""
    return {name: environment[name] for name in ENVIRONMENT if name in environment}


def trial_name(cell: str, seed: int) -> str:
    """Return the name of a trial, as `conv-pix2vec-3-seed-0`."""
    return f"{cell}-seed-{seed}"


@dataclass(frozen=True)
class StudyTrial(abc.ABC):
    """What a process needs to run a trial of the study in a folder; it can be pickled."""

    outcome: ClassVar[type[TrialOutcome]]

    study: Path
    cell: str
    recipe: Recipe

    @property
    def name(self) -> str:
        return trial_name(self.cell, self.recipe.train.seed)

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.study / "trials" / self.name

    @property
    def result(self) -> Path:
        return self.study / "results" / f"{self.name}.json"

    @property
    def training_flops(self) -> int:
        return training_flops(self.recipe)

    @abc.abstractmethod
    def measure(self, device: torch.device) -> None:
        """Train, or resume, and write the outcome, unless asked to stop."""

    def read(self) -> Any:
        if not self.result.is_file():
            return self.outcome()
        with naming(f"{self.result}, without which the trial is probed again,"):
            values = {name: each for name, each in read_json(self.result).items() if name != "kind"}
            return from_dict(self.outcome, values)

    def write(self, outcome: TrialOutcome) -> None:
        write_json(self.result, {"kind": "trial result", **to_dict(outcome)})

    def fail(self, reason: str, *, traceback: str = "") -> None:
        """Write that the trial failed; all else stays recorded."""
        self.write(replace(self.read(), status="failed", reason=reason, traceback=traceback))


def run_trial(trial: StudyTrial, device: str, threads: int) -> None:
    """Run or resume a trial, and write its result or its failure, unless it is asked to stop."""
    if multiprocessing.parent_process() is not None:
        handle_stop_signals()
    torch.set_num_threads(threads)
    try:
        with exclusive_lock(trial.result.parent, f"trial {trial.name} in", name=f"{trial.name}.lock"):
            trial.measure(select_device(device))
    except KeyboardInterrupt:
        pass
    except Exception as error:
        trial.fail(str(error).strip().partition("\n")[0] or type(error).__name__, traceback=format_exc())


def orphaned() -> bool:
    """Return whether the process that started this one has ended."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()
