"""Pre-training and fine-tuning: a recipe and its images become a run folder."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isopix.codecs.base import Codec
from isopix.core import progress, ranks
from isopix.core.config import from_dict, to_dict
from isopix.data.dataset import ImageDataset
from isopix.data.load import load_dataset
from isopix.data.measurement import missing_class_notes, unknown_images_warning
from isopix.data.sources.base import SPLIT_NAMES
from isopix.data.splits import Hashes, majority_accuracy
from isopix.recipes.recipe import Recipe
from isopix.runs.image_lists import leave_out_seen, save_hashes, union
from isopix.runs.load import LoadedRun
from isopix.runs.start import TrainingStart, with_absolute_paths
from isopix.runs.state import Origin, RunEnvironment, RunStatus, write_environment
from isopix.runs.training import TrainingRun
from isopix.runs.training_log import RunObserver, evaluator_specs
from isopix.storage.arrays import npz_bytes, read_tensors, write_tensors
from isopix.storage.atomic import replace_file, scratch_folder, write_json
from isopix.storage.cache import default_cache, read_manifest, write_artifact
from isopix.storage.provenance import environment, hash_bytes, plugin_records
from isopix.storage.run_folder import LABELED, SEEN, RunFolder, start_run
from isopix.train.parallel import barrier

MAX_FITTED = 100_000  # images to which a codec is fitted: more take longer, and change it little
FIT_VERSION = 2  # raise it when other codecs come of the same images
BEST_STEP = "the step of the weights that are saved"
MAX_IMAGES = 60  # in the sample of the data
MAX_BYTES = 2**21  # of their pixels: 14 images of 224x224


def train_recipe(
    start: TrainingStart, out: Path, *, device: torch.device, observer: RunObserver
) -> RunStatus:
    """Train or fine-tune in the new folder `out`."""
    recipe = start.recipe
    with shared_by_ranks(start_run(out), out) as folder:
        data = training_data(recipe)
        if start.run is None:
            codec = fit_codec(recipe, data)
            start = start.untrained(codec)
            recipe = start.recipe
        source = start.run
        assert source is not None
        selecting = data.validation.sample(recipe.train.evaluate_images if recipe.selects_step else 0)
        seen = union(data.train.hashes, source.seen, selecting.hashes)
        data, left_out = leave_out_seen(data, seen, known=source.seen_known)
        recipe = with_absolute_paths(recipe)
        classifies = recipe.finetune is not None and recipe.finetune.has_class_loss
        own = union(data.train.hashes) if classifies else None
        labeled = union(own, source.labeled)
        origin = _origin(source, own, labeled)
        training = TrainingRun(folder, recipe, source.network, data, device, origin)
        write_json(folder.recipe, to_dict(recipe))
        save_hashes(folder.path / SEEN, seen)
        save_hashes(folder.path / LABELED, labeled)
        save_data_sample(folder, data)
        facts = {
            **environment(recipe.train.environment(device)),
            **plugin_records(),
            **_records(training),
            **start.provenance,
        }
        write_environment(folder, from_dict(RunEnvironment, facts))
        if data.bad_files_csv:
            replace_file(folder.path / "bad-files.csv", data.bad_files_csv.read_bytes())
        notes = [*start.notes, *filter(None, [left_out]), *unknown_images_warning(data)]
        notes += [*recipe.train.precision_notes(device), *_finetuning_notes(recipe, data)]
        return training.run(observer, notes=notes)


@contextmanager
def shared_by_ranks(opened: AbstractContextManager[RunFolder], path: Path) -> Iterator[RunFolder]:
    """Yield the run at a path that rank 0 opens; other ranks get a temporary view, which is not saved."""
    barrier()  # all have checked the path
    if ranks.rank() == 0:
        with opened as run:
            barrier()  # it is locked, and what a killed start has left is deleted
            yield run
    else:
        barrier()
        with scratch_folder("rank") as temporary:
            yield RunFolder(path).view(Path(temporary) / "run")
    barrier()  # the run is complete


def training_data(recipe: Recipe) -> ImageDataset:
    """Load the images of a recipe; only those with labels for fine-tuning.

    Raises ValueError if they lack the labels or the validation images that the recipe needs.
    """
    data = load_dataset(recipe.data)
    if recipe.finetune is not None:
        data = data.labeled("finetune")
    if recipe.selects_step:
        require_validation(recipe, data, BEST_STEP)
    for spec in evaluator_specs(recipe.train):
        spec.check_data(data)
    return data


def require_validation(recipe: Recipe, data: ImageDataset, selection: str) -> None:
    """Raises ValueError unless the run evaluates validation images; `selection` is what they select."""
    data.require_validation(selection)
    if recipe.train.evaluate_images == 0:
        raise ValueError(f"{selection} is selected on validation images; set evaluate_images above 0")


def _records(training: TrainingRun) -> dict[str, Any]:
    data = training.data
    counts = {name: len(getattr(data, name)) for name in SPLIT_NAMES}
    records: dict[str, Any] = {"data": data.fingerprint, "images": counts}
    labels = data.test.sample(training.recipe.train.num_test_images).labeled.labels
    train = data.train.labeled.labels
    if labels is not None and len(labels) and train is not None and len(train):
        records["majority"] = majority_accuracy(train, labels)
    if training.model is not None:
        trained = (each.numel() for each in training.model.parameters() if each.requires_grad)
        records["trained_parameters"] = sum(trained)
    return records


def _origin(source: LoadedRun, own: Hashes | None, labeled: Hashes | None) -> Origin:
    """Return the labels seen, None if unknown, an upper bound where the images are not known."""
    before, after = source.state.labels_seen, 0 if labeled is None else len(labeled)
    if before and source.labeled is None:
        after = before + (0 if own is None else len(own))
    return Origin(
        labels_seen=None if before is None else after,
        initial_labels_seen=before,
        decoder_valid=source.state.decoder_valid,
    )


def _finetuning_notes(recipe: Recipe, data: ImageDataset) -> list[str]:
    if recipe.finetune is None or not recipe.finetune.has_class_loss:
        return []
    notes = [*missing_class_notes(data)]
    if recipe.selects_step and recipe.data.labels_per_class is not None:
        count = len(data.validation.sample(recipe.train.evaluate_images))
        notes.append(
            f"{count:,} labeled validation images select the step, besides {len(data.train):,} labeled "
            "training images; patience=null trains for a fixed number of steps without them"
        )
    if not len(data.test):
        splits = "test" if len(data.validation) else "validation or test"
        notes.append(
            f"there will be no {splits} accuracy: dataset '{data.name}' has no {splits} images; set "
            f"data.holdout above 0, or use data with {splits} images of its own"
        )
    return notes


def save_data_sample(folder: RunFolder, data: ImageDataset) -> None:
    """Save training images, balanced by class, with labels (-1: none), and counts [classes 3] by split."""
    count = max(1, min(MAX_IMAGES, MAX_BYTES // data.train.images.shape[1:].numel()))
    sample = data.train.balanced_sample(count)
    labels = torch.full((len(sample),), -1) if sample.labels is None else sample.labels
    order = labels.argsort(stable=True)
    splits = [getattr(data, name).labeled.labels for name in SPLIT_NAMES]
    none = torch.zeros(len(data.classes), dtype=torch.int64)
    counts = [none if each is None else torch.bincount(each, minlength=len(data.classes)) for each in splits]
    arrays = {
        "images": sample.images[:][order].cpu().numpy(),
        "labels": labels[order].numpy(),
        "classes": np.array(data.classes, dtype=str),
        "counts": torch.stack(counts, 1).numpy(),
    }
    replace_file(folder.data_sample, npz_bytes(arrays))


def fit_codec(recipe: Recipe, data: ImageDataset) -> Codec:
    """Return the codec, fitted to at most 100,000 training images or from $ISOPIX_CACHE/codecs."""
    spec, seed = recipe.model.codec, recipe.train.seed
    if not spec.fit_message:
        return spec.fit(data.train.images, recipe.grid, seed)
    settings = [FIT_VERSION, MAX_FITTED, to_dict(spec), recipe.grid, seed, plugin_records()]
    key = hash_bytes(json.dumps(settings).encode(), data.fingerprint.encode())
    folder, file = default_cache() / "codecs" / key, "codec.safetensors"
    images = data.train.sample(MAX_FITTED, seed).images
    part = "" if len(images) == len(data.train) else f"{len(images):,} of "
    kept = read_manifest(folder) is not None
    progress.announce(
        f"{spec.fit_message} to {part}{len(data.train):,} training images"
        f"{' (read from the cache)' if kept else ''}"
    )
    if kept:
        return spec.from_state(read_tensors(folder / file), recipe.grid)
    codec = spec.fit(images, recipe.grid, seed)

    def write(scratch: Path) -> dict[str, Any]:
        write_tensors(scratch / file, {f"codec.{name}": each for name, each in codec.state_dict().items()})
        return {}

    with suppress(OSError):
        write_artifact(folder, write)
    return codec
