"""Low-data evaluation by fine-tuning: a run folder for each subset of the labels."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.core.measurement import Measurement
from isopix.core.overrides import parse, resolve_setting
from isopix.core.progress import announce, track
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.measurement import majority_baseline
from isopix.probing.config import LowDataConfig
from isopix.probing.results import FewLabels
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.finetune import prepare_finetune
from isopix.runs.load import LoadedRun
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
    run: RunFolder,
    settings: Sequence[str],
    config: LowDataConfig,
    images: DataConfig,
    num_test_images: int,
    device: torch.device,
) -> FineTuneJob:
    """Prepare to fine-tune a run on subsets of the images that are probed, and to evaluate it on all
    `num_test_images` test images unless a setting says otherwise.

    Raises ValueError for wrong settings, and for those that would change the images.
    """
    fixed = [] if config.select == "validation" else ["patience=null"]
    recipe, initial = prepare_finetune(
        str(run.path),
        options={"num_test_images": num_test_images},
        assignments=[f"steps={config.finetune_steps}", *settings, *fixed],
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
    recipe = replace(recipe, data=replace(images, augment=recipe.data.augment))
    return FineTuneJob(recipe, initial, run.low_data, device)


def finetune_low_data(job: FineTuneJob, config: LowDataConfig) -> tuple[FewLabels, ...]:
    """Fine-tune the run on each subset, in run folders `labels-4-subset-0` of a folder for these settings.

    Finished runs are read, interrupted ones are resumed. Raises KeyboardInterrupt when asked to stop, and
    what `start` raises.
    """
    results, done = [], 0
    settings = start_settings(TrainingStart(job.recipe, job.initial))
    out = job.out / f"finetune-{settings_hash(settings)}"
    total = len(config.labels) * config.subsets
    with folder_of_runs(out, settings, "low-data evaluation"), track("fine-tuning", total) as show:
        for count in config.labels:
            tests = []
            for subset in range(config.subsets):
                folder = RunFolder(out / f"labels-{count}-subset-{subset}")
                _finetune(job, folder.path, count, subset)
                tests.append(_test_record(folder))
                error, steps = 1 - float(tests[-1]["accuracy"]), tests[-1]["step"]
                announce(f"{count} labels per class, subset {subset}: test error {error:.1%}, {steps} steps")
                show(done := done + 1)
            few = FewLabels(
                count,
                num_train_images=read_environment(folder).images["train"],
                num_test_images=tests[0]["images"],
                layers=(),
                errors=tuple(1 - float(each["accuracy"]) for each in tests),
                num_selection_images=tests[0]["selection_images"],
            )
            results.append(few)
    return tuple(results)


def low_data_measurement(loaded: LoadedRun, images: ImageDataset, config: LowDataConfig) -> Measurement:
    """Return the record of test errors with few labels."""
    by_folds = "by cross-validation within the labeled images"
    chosen = f"on {len(images.validation):,} validation images" if config.select == "validation" else by_folds
    selection = f"layer and L2 penalty chosen {chosen}"
    return replace(loaded.measure(images, "test"), selection=selection, baselines=majority_baseline(images))


def _finetune(job: FineTuneJob, folder: Path, count: int | str, subset: int) -> None:
    """Fine-tune on one subset until done."""
    recipe = replace(job.recipe, data=replace(job.recipe.data, labels_per_class=count, subset=subset))
    fresh = job.initial._replace(network=deepcopy(job.initial.network))  # training changes it
    observer = RunObserver(title=None)
    status = train_or_resume(recipe, folder, device=job.device, observer=observer, initial=fresh)
    if not status.finished:
        raise KeyboardInterrupt


def _test_record(folder: RunFolder) -> Record:
    """Return the log record of the test images. Raises ValueError if there is none."""
    records = [each for each in log.read_log(folder.log) if each.keys() >= TESTED]
    if not records:
        raise ValueError(
            f"the log of {folder.path} has no test accuracy; delete the folder to train it again"
        )
    return records[-1]
