"""Low-data evaluation by fine-tuning: a run folder for each subset of the labels."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.core.overrides import parse, resolve_setting
from isopix.core.progress import track
from isopix.data.dataset import DataConfig
from isopix.probing.low_data import LowDataProtocol
from isopix.probing.results import FewLabels
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.finetune import prepare_finetune
from isopix.runs.observer import RunObserver
from isopix.runs.pretrain import BEST_STEP, require_evaluations
from isopix.runs.resume import folder_of_runs, train_or_resume
from isopix.runs.start import InitialWeights, TrainingStart, start_settings
from isopix.runs.state import read_environment
from isopix.storage import log
from isopix.storage.provenance import settings_hash
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

TESTED = {"accuracy", "images", "selection_images"}  # in the log record of the test images


class FineTuneJob(NamedTuple):
    """Settings and initial weights of fine-tuning, the folder of its run folders, and the device."""

    recipe: Recipe
    initial: InitialWeights
    out: Path
    device: torch.device


def finetune_job(
    source: Path,
    settings: Sequence[str],
    *,
    images: DataConfig,
    num_test_images: int,
    out: Path,
    device: torch.device,
) -> FineTuneJob:
    """Prepare to fine-tune a run on subsets of the images that are probed, and to evaluate it on all
    `num_test_images` test images unless a setting says otherwise.

    Raises ValueError for wrong settings, and for those that would change the images.
    """
    recipe, initial = prepare_finetune(
        str(source), options={"num_test_images": num_test_images}, assignments=settings
    )
    for path in (resolve_setting(to_dict(recipe), word) for word in registry.full_names(parse(settings))):
        if path == "train.seed" or (path.startswith("data.") and not path.startswith("data.augment")):
            raise ValueError(
                f"{path} cannot be set here: fine-tuning uses the images and subsets that are probed; "
                "give --data or --limit"
            )
    assert initial is not None, "the source is a run"
    if recipe.finetune is not None and recipe.finetune.early_stops:
        require_evaluations(recipe, BEST_STEP)
    return FineTuneJob(
        replace(recipe, data=replace(images, augment=recipe.data.augment)), initial, out, device
    )


def finetune_low_data(job: FineTuneJob, protocol: LowDataProtocol) -> tuple[FewLabels, ...]:
    """Fine-tune the run on each subset, in run folders `labels-4-subset-0` of a folder for these settings.

    Finished runs are read, interrupted ones are resumed. Raises KeyboardInterrupt when asked to stop, and
    what `start` raises.
    """
    results, sizes, subsets = [], protocol.labels_per_class, protocol.num_subsets
    settings = start_settings(TrainingStart(job.recipe, job.initial))
    out = job.out / f"finetune-{settings_hash(settings)}"
    with (
        folder_of_runs(out, settings, "low-data evaluation"),
        track("fine-tuning", len(sizes) * subsets) as done,
    ):
        folders_of = {}
        for i, (count, subset) in enumerate(product(sizes, range(subsets)), start=1):
            folders_of[count, subset] = _finetune(job, out, count, subset)
            done(i)
    for count in sizes:
        folders = [folders_of[count, subset] for subset in range(subsets)]
        tests = [_test_record(folder) for folder in folders]
        num_train_images = read_environment(RunFolder(folders[0])).images["train"]
        errors = tuple(1 - float(test["accuracy"]) for test in tests)
        selecting = tests[0]["selection_images"]
        results.append(FewLabels(count, num_train_images, tests[0]["images"], (), errors, selecting))
    return tuple(results)


def _finetune(job: FineTuneJob, out: Path, count: int | str, subset: int) -> Path:
    """Fine-tune on one subset until done, and return the run folder."""
    recipe = replace(job.recipe, data=replace(job.recipe.data, labels_per_class=count, subset=subset))
    folder = out / f"labels-{count}-subset-{subset}"
    fresh = job.initial._replace(network=deepcopy(job.initial.network))  # training changes it
    observer = RunObserver(f"{recipe.name}, {count} labels per class, subset {subset}")
    status = train_or_resume(recipe, folder, device=job.device, observer=observer, initial=fresh)
    if not status.finished:
        raise KeyboardInterrupt
    return folder


def _test_record(folder: Path) -> Record:
    """Return the log record of the test images. Raises ValueError if there is none."""
    records = [each for each in log.read_log(RunFolder(folder).log) if each.keys() >= TESTED]
    if not records:
        raise ValueError(f"the log of {folder} has no test accuracy; delete the folder to train it again")
    return records[-1]
