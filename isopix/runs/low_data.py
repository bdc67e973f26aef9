"""Low-data evaluation by fine-tuning: a run folder for each subset of the labels."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch

from isopix.core.config import to_dict
from isopix.core.overrides import parse, resolve_setting
from isopix.core.progress import track
from isopix.data.dataset import DataConfig
from isopix.probing.low_data import LowDataProtocol
from isopix.probing.results import FewLabels
from isopix.recipes import registry
from isopix.runs.finetune import prepare_finetune
from isopix.runs.resume import folder_of_runs, train_or_resume
from isopix.runs.start import TrainingStart
from isopix.runs.state import read_environment
from isopix.runs.training_log import RunObserver
from isopix.storage import log
from isopix.storage.provenance import settings_hash
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

TESTED = {"accuracy", "images", "selection_images"}  # in the log record of the test images


def prepare_low_data(
    source: Path, settings: Sequence[str], *, images: DataConfig, num_test_images: int
) -> TrainingStart:
    """Prepare to fine-tune a run on subsets of the images that are probed, and to evaluate it on all
    `num_test_images` test images unless a setting says otherwise.

    Raises ValueError for wrong settings, and for those that would change the images.
    """
    start = prepare_finetune(str(source), settings, options={"num_test_images": num_test_images})
    recipe = start.recipe
    for path in (resolve_setting(to_dict(recipe), word) for word in registry.full_names(parse(settings))):
        if path == "train.seed" or (path.startswith("data.") and not path.startswith("data.augment")):
            raise ValueError(
                f"{path} cannot be set here: fine-tuning uses the images and subsets that are probed; "
                "give --data or --limit"
            )
    return start._replace(recipe=recipe.updated(data=replace(images, augment=recipe.data.augment)))


def finetune_low_data(
    start: TrainingStart, protocol: LowDataProtocol, out: Path, device: torch.device
) -> tuple[FewLabels, ...]:
    """Fine-tune on each subset, in run folders `labels-4-subset-0` of a folder in `out` for these settings.

    Finished runs are read, interrupted ones are resumed. Raises KeyboardInterrupt when asked to stop, and
    what `train_or_resume` raises.
    """
    settings, counts, subsets = start.settings(), protocol.labels_per_class, range(protocol.num_subsets)
    out = out / f"finetune-{settings_hash(settings)}"
    folders = {each: out / f"labels-{each[0]}-subset-{each[1]}" for each in product(counts, subsets)}
    with folder_of_runs(out, settings, "low-data evaluation"), track("fine-tuning", len(folders)) as done:
        for i, ((count, subset), folder) in enumerate(folders.items(), start=1):
            recipe = start.recipe
            recipe = recipe.updated(data=replace(recipe.data, labels_per_class=count, subset=subset))
            observer = RunObserver(f"{recipe.name}, {count} labels per class, subset {subset}")
            if not train_or_resume(
                recipe, folder, device=device, observer=observer, initial=start.again()
            ).finished:
                raise KeyboardInterrupt
            done(i)
    results = []
    for count in counts:
        tests = [_test_record(folders[count, subset]) for subset in subsets]
        num_train_images = read_environment(RunFolder(folders[count, 0])).images["train"]
        errors = tuple(1 - float(test["accuracy"]) for test in tests)
        selecting = tests[0]["selection_images"]
        results.append(FewLabels(count, num_train_images, tests[0]["images"], (), errors, selecting))
    return tuple(results)


def _test_record(folder: Path) -> Record:
    """Return the log record of the test images. Raises ValueError if there is none."""
    records = [each for each in log.read_log(RunFolder(folder).log) if each.keys() >= TESTED]
    if not records:
        raise ValueError(f"the log of {folder} has no test accuracy; delete the folder to train it again")
    return records[-1]
