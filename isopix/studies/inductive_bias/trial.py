"""Run one trial of a study: train, probe and measure a network, and write its result to one file."""

import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from traceback import format_exc
from typing import NamedTuple

import torch

from isopix.core.config import from_dict, to_dict
from isopix.core.device import select_device
from isopix.core.signals import handle_stop_signals
from isopix.core.text import naming
from isopix.data.dataset import load_dataset
from isopix.probing.base import ProbeMethod
from isopix.probing.config import ProbeConfig
from isopix.probing.probe import probe_measurement
from isopix.recipes.recipe import Recipe
from isopix.runs.load import load_run
from isopix.runs.lr_search import train_at_lr, trial_recipe
from isopix.runs.results import LRTrial
from isopix.runs.training_log import RunObserver, unigram_nats, validation_measurement
from isopix.storage.atomic import exclusive_lock, read_json, write_json
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.studies.inductive_bias.measure import measure, probe_pools
from isopix.studies.inductive_bias.results import STUDY_POOLS, Architecture, Trial, TrialResult, trial_name

EXAMPLE_DEPTH = 3  # largest depth of an example (the paper's figure 5)
ENVIRONMENT = (
    *("isopix", "commit", "device", "threads", "precision", "torch", "pillow", "python", "platform", "data"),
)


class TrialSpec(NamedTuple):
    """What a process needs to run a trial of the study in a folder; it can be pickled."""

    study: Path
    architecture: Architecture
    recipe: Recipe
    lrs: tuple[float, ...]
    probe: ProbeMethod
    probe_images: Mapping[str, int]

    @property
    def name(self) -> str:
        return trial_name(self.architecture, self.recipe.train.seed)

    def run(self, lr: float) -> Path:
        """Return the run folder of a learning rate, with -lr-LR appended for any but the first."""
        name = self.name if lr == self.lrs[0] else f"{self.name}-lr-{lr}"
        return self.study / "trials" / name

    @property
    def result(self) -> Path:
        return self.study / "results" / f"{self.name}.json"

    @property
    def example(self) -> Path:
        """The file of the trial's pictures, if it is an example of its block."""
        return self.result.with_suffix(".npz")

    @property
    def is_example(self) -> bool:
        """Whether a trial may represent its block: with pix2vec, of the first seed, and of few blocks."""
        _, encoding, depth = self.architecture
        return encoding == "pix2vec" and self.recipe.train.seed == 0 and depth <= EXAMPLE_DEPTH

    def read(self) -> TrialResult:
        if not self.result.is_file():
            return TrialResult()
        with naming(f"{self.result}, without which the trial is probed again,"):
            values = {name: each for name, each in read_json(self.result).items() if name != "kind"}
            return from_dict(TrialResult, values)

    def write(self, result: TrialResult) -> None:
        write_json(self.result, {"kind": "trial result", **to_dict(result)})

    def fail(self, reason: str, *, traceback: str = "") -> None:
        """Write that the trial failed; the learning rates that diverged stay recorded."""
        self.write(replace(self.read(), status="failed", reason=reason, traceback=traceback))


def run_trial(spec: TrialSpec, device: str, threads: int | None) -> None:
    """Run or resume a trial, and write its result or its failure, unless it is asked to stop."""
    if multiprocessing.parent_process() is not None:
        handle_stop_signals()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with exclusive_lock(spec.result.parent, f"trial {spec.name} in", name=f"{spec.name}.lock"):
            trained = _train(spec, select_device(device))
            if trained is not None:
                spec.write(_measured(spec, trained, select_device(device)))
    except KeyboardInterrupt:
        pass
    except Exception as error:
        spec.fail(str(error).strip().partition("\n")[0] or type(error).__name__, traceback=format_exc())


def _train(spec: TrialSpec, device: torch.device) -> LRTrial | None:
    """Train at the largest learning rate that does not diverge; None if asked to stop."""
    recipe, observer = trial_recipe(spec.recipe), RunObserver(stop=_orphaned)
    for lr in spec.lrs:
        before = spec.read()
        if lr in [each.lr for each in before.lr_trials if each.status != "completed"]:
            continue
        found = train_at_lr(recipe, lr, spec.run(lr), device=device, observer=observer)
        if found is None:
            return None
        others = tuple(each for each in before.lr_trials if each.lr != lr)
        spec.write(replace(before, status="not run", reason="", traceback="", lr_trials=(*others, found)))
        if found.loss is not None:
            return found
    first, last = spec.lrs[0], spec.lrs[-1]
    raise RuntimeError(f"the loss diverged at every learning rate from {first:g} down to {last:g}")


def _measured(spec: TrialSpec, trained: LRTrial, device: torch.device) -> TrialResult:
    began, folder = time.monotonic(), RunFolder(spec.run(trained.lr))
    loaded = load_run(folder.path, device=device)
    loaded.network.eval()
    whole = load_dataset(loaded.recipe.data)
    probed = {name: getattr(whole, name).sample(count) for name, count in spec.probe_images.items()}
    data = replace(whole, **probed)
    probes = probe_pools(loaded, data, spec.probe)
    baselines = {name: each.test_accuracy for name, each in probes[STUDY_POOLS[0]].baselines.items()}
    measurement = probe_measurement(loaded.measure(data, "test"), data, spec.probe, ProbeConfig(), baselines)
    log, environment, groups = read_log(folder.log), read_json(folder.environment), data.test.groups
    unigram = unigram_nats(log)
    metrics = {
        "images": {name: len(split) for name, split in probed.items()},
        "measurement": measurement.to_dict(),
        "measurements": measure(loaded, data.test.images[:], spec.example if spec.is_example else None),
        "loss_measurement": {
            **validation_measurement(log),
            "baselines": {} if unigram is None else {"unigram": unigram},
        },
    }
    return TrialResult(
        status="done",
        run=folder.path.name,
        lr_trials=spec.read().lr_trials,
        training_seconds=trained.seconds,
        probing_seconds=time.monotonic() - began,
        trial=Trial(*spec.architecture, spec.recipe.train.seed, float(trained.loss or 0.0), probes),
        metrics=metrics,
        environment={name: environment[name] for name in ENVIRONMENT if name in environment},
        test_groups=() if groups is None else tuple(groups.tolist()),
    )


def _orphaned() -> bool:
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()
