"""Load networks and images for a command, and save its figures with their numbers."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, validators

from isopix.cli.console import say, show_json, warn
from isopix.core import device as devices
from isopix.core.types import Images
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.runs.load import Loaded, load
from isopix.storage.atomic import write_json
from isopix.storage.provenance import settings_hash, with_provenance
from isopix.storage.run_folder import RunFolder

Positive = validators.Number(gte=1)
Count = Annotated[int, Parameter(name=["--count", "-n"], validator=Positive, help="Number of images.")]
Temperature = Annotated[
    float, Parameter(help="Softmax temperature; values below 1 sharpen the distribution.")
]
TopK = Annotated[int | None, Parameter(help="Sample from the k most likely colors only.")]
TopP = Annotated[
    float | None, Parameter(help="Sample from the most likely colors whose probabilities add up to p.")
]
SplitName = Literal["train", "validation", "test"]
Split = Annotated[
    SplitName | None,
    Parameter(help="Split of the data set. Default: test, or all images of another unsplit data set."),
]


def load_network(run: Path, device: str) -> Loaded:
    """Load the newest intact network of a run; warn about damaged checkpoints that were skipped."""
    loaded = load(run, device=devices.select_device(device))
    for reason in loaded.damaged:
        warn(f"skipped: {reason}")
    loaded.network.eval()
    return loaded


def load_images(settings: DataConfig, seed: int) -> ImageDataset:
    """Load the images of these settings; warn about files that cannot be read."""
    images = load_dataset(settings, seed=seed)
    for skipped in images.bad_files:
        warn(f"skipped {skipped.path}: {skipped.reason}")
    return images


def evaluation_images(loaded: Loaded, source: str | None, limit: int | None = None) -> ImageDataset:
    """Load images to evaluate a network on, at its resolution, with a validation split and all labels.

    They come from `source`, or else from the run's own data set with the run's own limit.
    """
    return load_images(evaluation_data(loaded, source, limit), loaded.recipe.train.seed)


def evaluation_data(loaded: Loaded, source: str | None, limit: int | None = None) -> DataConfig:
    """Return the settings that `evaluation_images` loads."""
    settings = replace(loaded.recipe.data, train_on_validation=False, labels_per_class=None, subset=0)
    if source is not None:
        settings = replace(settings, source=source, limit=None)
    if limit is not None:
        settings = replace(settings, limit=limit)
    return settings


def leakage_warning(own: DataConfig, source: str | None) -> tuple[str, ...]:
    """Return a warning if a run with these data settings was trained on the validation images of `source`."""
    if not own.train_on_validation or not (source is None or _is_own(own, source)):
        return ()
    return (
        "the run was refitted on training and validation images: choices made on the validation split are "
        "biased and validation accuracies are too high; the test images are unseen",
    )


def _is_own(own: DataConfig, source: str) -> bool:
    return source == own.source or str(Path(source).resolve()) == own.source


def select_split(
    loaded: Loaded, source: str | None, split: SplitName | None, limit: int | None
) -> tuple[ImageDataset, SplitName]:
    """Load images and choose their split: the given one, or test, or all images of an unsplit source.

    The run's own data set is split as in training; another one is not split at random.
    """
    if source is None or _is_own(loaded.recipe.data, source):
        return evaluation_images(loaded, source, limit), split or "test"
    settings = replace(loaded.recipe.data, source=source, limit=limit, train_on_validation=False, holdout=0.0)
    images = load_images(settings, loaded.recipe.train.seed)
    return images, split or ("test" if len(images.test) else "train")


def first_images(data: ImageDataset, split: SplitName, count: int) -> Images:
    """Return the first `count` images of a split. Raises ValueError if it has fewer."""
    images = {"train": data.train, "validation": data.validation, "test": data.test}[split].images
    if not 1 <= count <= len(images):
        raise ValueError(f"{count} images requested; {data.name} has {len(images)} in its {split} split")
    return images[:count]


def save_figure(run: RunFolder, name: str, picture: Any, numbers: Mapping[str, Any], *, json: bool) -> Path:
    """Save a figure and its numbers as `samples/<name>-<tag>.png` and `.json`, and print the path."""
    path = run.samples / f"{name}-{settings_hash(numbers)}.png"
    run.samples.mkdir(exist_ok=True)
    picture.save(path)
    values = with_provenance({**numbers, "picture": path.name})
    write_json(path.with_suffix(".json"), values)
    if json:
        show_json(values)
    else:
        say(f"wrote {path}")
    return path
