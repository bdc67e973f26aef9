"""Run one trial of a study: train, probe and measure a network, and write its result to one file."""

import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from traceback import format_exc
from typing import Any, NamedTuple

import torch

from isopix.core.choices import Pool
from isopix.core.config import from_dict, to_dict
from isopix.core.device import select_device
from isopix.core.signals import handle_stop_signals
from isopix.data.dataset import ImageDataset, load_dataset
from isopix.probing.base import ProbeMethod
from isopix.probing.config import ProbeConfig
from isopix.probing.probe import probe_measurement
from isopix.recipes.recipe import Recipe
from isopix.runs.load import LoadedRun, load_run
from isopix.runs.lr_search import train_at_lr, trial_recipe
from isopix.runs.results import LRTrial
from isopix.runs.training_log import RunObserver, unigram_nats, validation_measurement
from isopix.storage.atomic import exclusive_lock, read_json, write_json
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.studies.inductive_bias.measure import is_example, measure, probe_pools, save_example
from isopix.studies.inductive_bias.results import Architecture, PoolProbes, Trial, TrialResult

ENVIRONMENT = (
    *("isopix", "commit", "device", "threads", "precision", "torch", "pillow", "python", "platform", "data"),
)


class TrialSpec(NamedTuple):
    """What a process needs to run a trial; it can be pickled.

    The run folder is `folder`, with -lr-LR appended for any but the first of `lrs`. A probe of each of
    `pools` reads at most `probe_images` of each split.
    """

    name: str
    architecture: Architecture
    recipe: Recipe
    lrs: tuple[float, ...]
    probe: ProbeMethod
    pools: tuple[Pool, ...]
    probe_images: Mapping[str, int]
    folder: Path
    result: Path

    def read(self) -> TrialResult:
        """Return the status of the trial. Raises ValueError for a damaged file, or one of another version."""
        if not self.result.is_file():
            return TrialResult()
        try:
            values = {name: each for name, each in read_json(self.result).items() if name != "kind"}
            return from_dict(TrialResult, values)
        except (ValueError, KeyError) as error:
            reason = f"{self.result} cannot be read: {error}"
            raise ValueError(f"{reason}; delete it, and the trial is probed again") from None

    def write(self, result: TrialResult) -> None:
        """Write the status of the trial."""
        write_json(self.result, {"kind": "trial result", **to_dict(result)})

    def run(self, lr: float) -> Path:
        """Return the run folder of a learning rate."""
        return self.folder if lr == self.lrs[0] else self.folder.with_name(f"{self.folder.name}-lr-{lr}")

    @property
    def example(self) -> Path:
        """The file of the trial's pictures, if it is an example of its block."""
        return self.result.with_suffix(".npz")


def run_trial(spec: TrialSpec, device: str, threads: int | None) -> None:
    """Run or resume a trial, and write its result or its failure.

    A trial that is asked to stop, or whose study has ended, saves and writes no result. It fails if another
    process is still saving it. On a CPU with the same number of threads, interruptions do not change a
    number.
    """
    if multiprocessing.parent_process() is not None:
        handle_stop_signals()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with exclusive_lock(spec.result.parent, f"trial {spec.name} in", name=f"{spec.name}.lock"):
            result = _run(spec, select_device(device))
    except KeyboardInterrupt:
        return
    except Exception as error:
        mark_failed(spec, _first_line(error), traceback=format_exc())
        return
    if result is not None:
        spec.write(result)


def mark_failed(spec: TrialSpec, reason: str, *, traceback: str = "") -> None:
    """Write that a trial failed; the learning rates that diverged stay recorded."""
    spec.write(replace(spec.read(), status="failed", reason=reason, traceback=traceback))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _run(spec: TrialSpec, device: torch.device) -> TrialResult | None:
    """Return the result; None if asked to stop."""
    trained = _train(spec, device)
    if trained is None:
        return None
    began = time.monotonic()
    folder = RunFolder(spec.run(trained.lr))
    loaded = load_run(folder.path, device=device)
    loaded.network.eval()
    data = _limit(load_dataset(loaded.recipe.data), spec.probe_images)
    probes = probe_pools(loaded, data, spec.probe, spec.pools)
    environment, groups = read_json(folder.environment), data.test.groups
    if is_example(spec.architecture, spec.recipe.train.seed):
        save_example(spec.example, loaded, data.test.images[:])
    return replace(
        spec.read(),
        status="done",
        reason="",
        traceback="",
        run=folder.path.name,
        training_seconds=trained.seconds,
        probing_seconds=time.monotonic() - began,
        trial=Trial(
            *spec.architecture,
            seed=spec.recipe.train.seed,
            loss=float(trained.loss or 0.0),
            probes=probes,
        ),
        metrics=_metrics(spec, probes[spec.pools[0]], loaded, data, folder),
        environment={name: environment[name] for name in ENVIRONMENT if name in environment},
        test_groups=() if groups is None else tuple(groups.tolist()),
    )


def _train(spec: TrialSpec, device: torch.device) -> LRTrial | None:
    """Train at the largest learning rate that does not diverge; None if asked to stop.

    Raises RuntimeError if every learning rate diverges, and what `pretrain` raises.
    """
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


def _metrics(
    spec: TrialSpec, probes: PoolProbes, loaded: LoadedRun, data: ImageDataset, run: RunFolder
) -> dict[str, Any]:
    """Return the measurement records, the number of images of each split, and what `measure` measures."""
    baselines = {name: probed.test_accuracy for name, probed in probes.baselines.items()}
    measured = loaded.measure(data, "test")
    return {
        "images": {name: len(getattr(data, name)) for name in ("train", "validation", "test")},
        "measurement": probe_measurement(measured, data, spec.probe, ProbeConfig(), baselines).to_dict(),
        "measurements": measure(loaded, data.test.images[:]),
        "loss_measurement": _loss_record(run),
    }


def _loss_record(run: RunFolder) -> dict[str, Any]:
    """Return the measurement record of the validation loss, with that of predicting frequencies beside it."""
    records = read_log(run.log)
    unigram = unigram_nats(records)
    baselines = {} if unigram is None else {"unigram": unigram}
    return {**validation_measurement(records), "baselines": baselines}


def _limit(data: ImageDataset, images: Mapping[str, int]) -> ImageDataset:
    return replace(
        data,
        train=data.train.sample(images["train"]),
        validation=data.validation.sample(images["validation"]),
        test=data.test.sample(images["test"]),
    )


def _orphaned() -> bool:
    """Return whether the process that started this one has ended."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()
