"""Low-data evaluation by fine-tuning: a run folder for each subset of the labels."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from isopix.core.config import to_dict
from isopix.core.overrides import parse, resolve_setting
from isopix.core.progress import announce, track
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.measurement import majority_baseline
from isopix.probing.config import LowDataConfig
from isopix.probing.results import FewLabels
from isopix.recipes import registry
from isopix.runs.load import LoadedRun
from isopix.runs.resume import folder_of_runs, train_or_resume
from isopix.runs.start import TrainingStart, prepare_finetune
from isopix.runs.state import read_environment
from isopix.runs.training_log import RunObserver
from isopix.storage import log
from isopix.storage.provenance import settings_hash
from isopix.storage.result import Measurement
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

TESTED = {"accuracy", "images", "selection_images"}  # in the log record of the test images


def prepare_low_data(
    run: RunFolder, settings: Sequence[str], config: LowDataConfig, images: DataConfig, num_test_images: int
) -> TrainingStart:
    """Prepare to fine-tune a run on subsets of the probed images and to test on all `num_test_images`."""
    fixed = [] if config.select == "validation" else ["patience=null"]
    words = [f"steps={config.finetune_steps}", *settings, *fixed]
    start = prepare_finetune(str(run.path), words, options={"num_test_images": num_test_images})
    recipe = start.recipe
    for path in (resolve_setting(to_dict(recipe), word) for word in registry.full_names(parse(settings))):
        if path == "train.seed" or (path.startswith("data.") and not path.startswith("data.augment")):
            raise ValueError(
                f"{path} cannot be set here: fine-tuning uses the images and subsets that are probed; "
                "give --data or --limit"
            )
    return start._replace(recipe=recipe.updated(data=replace(images, augment=recipe.data.augment)))


def finetune_low_data(
    start: TrainingStart, config: LowDataConfig, out: Path, device: torch.device
) -> tuple[FewLabels, ...]:
    """Fine-tune on each subset, in a folder in `out` for these settings; finished runs are read."""
    results, done, total = [], 0, len(config.labels) * config.subsets
    settings = start.settings()
    out = out / f"finetune-{settings_hash(settings)}"
    with folder_of_runs(out, settings, "low-data evaluation"), track("fine-tuning", total) as show:
        for count in config.labels:
            tests = []
            for subset in range(config.subsets):
                folder = RunFolder(out / f"labels-{count}-subset-{subset}")
                _finetune(start, folder.path, count, subset, device)
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


def _finetune(
    start: TrainingStart, folder: Path, count: int | str, subset: int, device: torch.device
) -> None:
    data = replace(start.recipe.data, labels_per_class=count, subset=subset)
    start = start.again()._replace(recipe=start.recipe.updated(data=data))
    if not train_or_resume(start, folder, device=device, observer=RunObserver(title=None)).finished:
        raise KeyboardInterrupt


def _test_record(folder: RunFolder) -> Record:
    records = [each for each in log.read_log(folder.log) if each.keys() >= TESTED]
    if not records:
        raise ValueError(
            f"the log of {folder.path} has no test accuracy; delete the folder to train it again"
        )
    return records[-1]
