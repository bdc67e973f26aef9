"""Pre-training and fine-tuning: a recipe and its images become a run folder."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from isopix.core import progress, ranks
from isopix.core.config import from_dict, to_dict
from isopix.core.device import check_compiler, runtime_environment
from isopix.data.dataset import ImageDataset, load_dataset
from isopix.data.measurement import missing_class_notes, missing_classes, unknown_images_warning
from isopix.data.splits import Hashes, Split, majority_accuracy
from isopix.recipes.recipe import Recipe
from isopix.runs.codec_cache import fit_codec
from isopix.runs.measurements import evaluator_specs
from isopix.runs.observer import RunObserver, RunStatus
from isopix.runs.seen import leave_out_seen, save_hashes, seen_images, union
from isopix.runs.start import InitialWeights, with_absolute_paths
from isopix.runs.state import Origin, RunEnvironment, write_environment
from isopix.runs.training import TrainingRun
from isopix.storage.arrays import npz_bytes
from isopix.storage.atomic import replace_file, write_json
from isopix.storage.provenance import environment, plugin_records
from isopix.storage.run_folder import RunFolder, start_run
from isopix.train.parallel import barrier

BEST_STEP = "the step of the weights that are saved"  # selected on validation in fine-tuning


def train_recipe(
    recipe: Recipe,
    out: Path,
    *,
    device: torch.device,
    observer: RunObserver,
    initial: InitialWeights | None = None,
    allowed: Collection[str] = (),
) -> RunStatus:
    """Train a recipe in the new run folder `out`, from scratch or from `initial` weights; the folder may hold
    files with `allowed` names.

    A recipe with `finetune` is fine-tuned. Raises ValueError for impossible settings, data or folders before
    any training; RuntimeError if the disk is full or the loss is not finite.
    """
    if recipe.train.compile:
        check_compiler()
    with new_run(out, allowed) as folder:
        data = load_dataset(recipe.data)
        check_data(recipe, data)
        if initial is None:
            initial = _from_scratch(recipe, data)
        seen = seen_images(data, initial.seen, _selecting(recipe, data))
        data, left_out = leave_out_seen(data, seen, known=initial.seen_known)
        recipe = with_absolute_paths(recipe)
        labeled = labeled_images(recipe, data, initial.labeled)
        origin = Origin(
            labels_seen=_labels_seen(recipe, data, initial, labeled),
            initial_labels_seen=initial.labels_seen,
            decoder_valid=initial.decoder_valid,
        )
        training = TrainingRun(folder, recipe, initial.network, data, device, origin)
        write_json(folder.recipe, to_dict(recipe))
        save_hashes(folder.training_images, seen)
        save_hashes(folder.labeled_images, labeled)
        save_data_sample(folder, data)
        facts = {
            **environment(runtime_environment(device)),
            **plugin_records(),
            **_records(training),
            **initial.provenance,
        }
        facts["precision"] = training.precision
        write_environment(folder, from_dict(RunEnvironment, facts))
        if data.bad_files_csv:
            replace_file(folder.path / "bad-files.csv", data.bad_files_csv.read_bytes())
        notes = [*initial.notes, *filter(None, [left_out]), *unknown_images_warning(data)]
        notes += [*recipe.train.precision_notes(device), *_finetuning_notes(recipe, data)]
        return training.run(observer, notes=notes)


@contextmanager
def new_run(path: Path, allowed: Collection[str] = ()) -> Iterator[RunFolder]:
    """Start a run as `start_run` does; ranks other than 0 get a temporary view of it, in which they save
    nothing.
    """
    barrier()  # all have checked that the path is free
    if ranks.rank() == 0:
        with start_run(path, allowed) as run:
            yield run
    else:
        with TemporaryDirectory(prefix="isopix-rank-") as temporary:
            run = RunFolder(Path(temporary) / "run", saved_at=path)
            run.path.mkdir()
            run.create_folders()
            yield run
    barrier()  # the run is complete


def check_data(recipe: Recipe, data: ImageDataset) -> None:
    """Raises ValueError for data that lacks the labels or the validation images that the recipe needs."""
    if recipe.finetune is not None:
        data.require_labels("finetune")
        if recipe.finetune.early_stops:
            require_validation(recipe, data, BEST_STEP)
    for spec in evaluator_specs(recipe.train):
        spec.check_data(data)


def require_validation(recipe: Recipe, data: ImageDataset, selection: str) -> None:
    """Raises ValueError unless the run evaluates validation images; `selection` is what they select."""
    data.require_validation(selection)
    require_evaluations(recipe, selection)


def require_evaluations(recipe: Recipe, selection: str) -> None:
    """Raises ValueError for settings without validation images in evaluations."""
    if recipe.train.evaluate_images == 0:
        raise ValueError(f"{selection} is selected on validation images; set evaluate_images above 0")


def _from_scratch(recipe: Recipe, data: ImageDataset) -> InitialWeights:
    """Return the untrained network, with its codec fitted to the training images if need be."""
    codec = fit_codec(recipe, data, note=progress.announce)
    return InitialWeights(recipe.build(codec), codec_provenance(recipe), tuple(codec.notes()))


def codec_provenance(recipe: Recipe) -> dict[str, Any]:
    """Return where the codec comes from, for the environment of a run; nothing for one of the run's own."""
    found = recipe.model.codec.provenance()
    return {"codec": found} if found else {}


def _records(training: TrainingRun) -> dict[str, Any]:
    """Return the data's fingerprint, the images per split, the test accuracy of predicting the majority class
    of train, and in fine-tuning the number of trained parameters.
    """
    data = training.data
    counts = {"train": len(data.train), "validation": len(data.validation), "test": len(data.test)}
    records: dict[str, Any] = {"data": data.fingerprint, "images": counts}
    labels = data.test.sample(training.recipe.train.num_test_images).labels
    if labels is not None and len(labels) and data.train.labels is not None:
        records["majority"] = majority_accuracy(data.train.labels, labels)
    if training.model is not None:
        records["missing_classes"] = missing_classes(data)
        trained = (each.numel() for each in training.model.parameters() if each.requires_grad)
        records["trained_parameters"] = sum(trained)
    return records


def _selecting(recipe: Recipe, data: ImageDataset) -> Split:
    """Return the validation images that select the step of the weights; none where the last one is kept."""
    selects = recipe.finetune is not None and recipe.finetune.early_stops
    return data.validation.sample(recipe.train.evaluate_images if selects else 0)


def labeled_images(recipe: Recipe, data: ImageDataset, earlier: Hashes | None) -> Hashes | None:
    """Return the sorted hashes of the images whose labels the loss depends on, and of those `earlier`."""
    trained = data.train if recipe.finetune is not None and recipe.finetune.has_class_loss else None
    return union(None if trained is None else trained.hashes, earlier)


def _labels_seen(
    recipe: Recipe, data: ImageDataset, initial: InitialWeights, labeled: Hashes | None
) -> int | None:
    """Return the number of labels seen: an upper bound where the images of the initial ones are not known,
    None where their number is not.
    """
    if initial.labels_seen is None:
        return None
    if initial.labels_seen and initial.labeled is None:
        own = labeled_images(recipe, data, None)
        return initial.labels_seen + (0 if own is None else len(own))
    return 0 if labeled is None else len(labeled)


def _finetuning_notes(recipe: Recipe, data: ImageDataset) -> list[str]:
    """Return notes for fine-tuning on classes: classes without training images, labels that select the step
    of a few-label run, and missing test images.
    """
    if recipe.finetune is None or not recipe.finetune.has_class_loss:
        return []
    notes = [*missing_class_notes(data)]
    if recipe.finetune.early_stops and recipe.data.labels_per_class is not None:
        count = len(data.validation.sample(recipe.train.evaluate_images))
        notes.append(
            f"{count:,} labeled validation images select the step, besides {len(data.train):,} labeled "
            "training images; patience=null trains for a fixed number of steps without them"
        )
    return [*notes, *_missing_test(data)]


def _missing_test(data: ImageDataset) -> list[str]:
    """Return a note if there are no test images."""
    if len(data.test):
        return []
    splits = "test" if len(data.validation) else "validation or test"
    return [
        f"there will be no {splits} accuracy: dataset '{data.name}' has no {splits} images; set "
        f"data.holdout above 0, or use data with {splits} images of its own"
    ]


MAX_IMAGES = 60
MAX_BYTES = 2**21  # of their pixels: 14 images of 224x224
SPLITS = ("train", "validation", "test")


def save_data_sample(folder: RunFolder, data: ImageDataset) -> None:
    """Save training images, of all classes alike, in the order of their classes, with their labels (-1 for
    none), the names of the classes, and the number of images of each class and split [classes 3].
    """
    count = max(1, min(MAX_IMAGES, MAX_BYTES // data.train.images.shape[1:].numel()))
    sample = data.train.balanced_sample(count)
    labels = torch.full((len(sample),), -1) if sample.labels is None else sample.labels
    order = labels.argsort(stable=True)
    splits = [getattr(data, name).labels for name in SPLITS]
    none = torch.zeros(len(data.classes), dtype=torch.int64)
    counts = [none if each is None else torch.bincount(each, minlength=len(data.classes)) for each in splits]
    arrays = {
        "images": sample.images[:][order].cpu().numpy(),
        "labels": labels[order].numpy(),
        "classes": np.array(data.classes, dtype=str),
        "counts": torch.stack(counts, 1).numpy(),
    }
    replace_file(folder.data_sample, npz_bytes(arrays))
