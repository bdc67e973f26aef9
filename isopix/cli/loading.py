"""What `sample`, `complete` and `reconstruct` share: a network, images for it, and a picture kept with its
numbers.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, validators

from isopix.cli.console import say, show_json, warn
from isopix.core import device as devices
from isopix.core.types import Images
from isopix.data.dataset import Data, ImageSet
from isopix.data.dataset import load as load_image_set
from isopix.runs.load import Loaded, load_run
from isopix.storage.atomic import write_json
from isopix.storage.provenance import record, tag
from isopix.storage.run_folder import RunFolder

Positive = validators.Number(gte=1)
Count = Annotated[int, Parameter(name=["--count", "-n"], validator=Positive, help="how many images")]
Temperature = Annotated[float, Parameter(help="1 draws from the model as it is; less is more cautious")]
TopK = Annotated[int | None, Parameter(help="draw from the k likeliest colours alone")]
TopP = Annotated[float | None, Parameter(help="draw from the fewest colours that reach this probability")]
SplitName = Literal["train", "validation", "test"]
Split = Annotated[
    SplitName | None, Parameter(help="which of their splits; test, or all of other images without one")
]


def network_of(run: Path, device: str) -> Loaded:
    """The newest intact network of a run; damaged checkpoints that were passed over are named."""
    loaded = load_run(run, device=devices.pick(device))
    for reason in loaded.damaged:
        warn(f"passed over: {reason}")
    loaded.network.eval()
    return loaded


def load_images(settings: Data, seed: int) -> ImageSet:
    """The images of these settings; files that cannot be read are named on standard error."""
    images = load_image_set(settings, seed=seed)
    for skipped in images.skipped:
        warn(f"skipped {skipped.path}: {skipped.reason}")
    return images


def images_for(loaded: Loaded, source: str | None, limit: int | None = None) -> ImageSet:
    """Images of another source, or of the run's own with the limit that it has, at the resolution of the
    network, with a validation split and all labels.
    """
    return load_images(data_for(loaded, source, limit), loaded.recipe.train.seed)


def data_for(loaded: Loaded, source: str | None, limit: int | None = None) -> Data:
    """The settings of `images_for`."""
    settings = replace(loaded.recipe.data, fold_back=False, labels=None, subset=0)
    if source is not None:
        settings = replace(settings, source=source, limit=None)
    if limit is not None:
        settings = replace(settings, limit=limit)
    return settings


def learnt_before(own: Data, source: str | None) -> tuple[str, ...]:
    """A sentence for a choice by validation images that a run with these data has learnt from; none for
    images of another source.
    """
    if not own.fold_back or not (source is None or _is_own(own, source)):
        return ()
    return (
        "validation was folded back into what the run learnt from, so the choice by it favours what the run "
        "knows by heart, and validation accuracies are too high; the test images are unseen",
    )


def _is_own(own: Data, source: str) -> bool:
    """Whether it is the source of these data."""
    return source == own.source or str(Path(source).resolve()) == own.source


def split_to_draw(
    loaded: Loaded, source: str | None, split: SplitName | None, limit: int | None
) -> tuple[ImageSet, SplitName]:
    """Images to draw from, and of which split: the one asked for, else test; all of a source without one.

    Of the run's own images the test split is held out, as in training; of others nothing need be.
    """
    if source is None or _is_own(loaded.recipe.data, source):
        return images_for(loaded, source, limit), split or "test"
    settings = replace(loaded.recipe.data, source=source, limit=limit, fold_back=False, holdout=0.0)
    images = load_images(settings, loaded.recipe.train.seed)
    return images, split or ("test" if len(images.test) else "train")


def first_images(data: ImageSet, split: SplitName, count: int) -> Images:
    """The first images of a split. Raises ValueError if there are not as many."""
    images = {"train": data.train, "validation": data.validation, "test": data.test}[split].images
    if not 1 <= count <= len(images):
        raise ValueError(f"{count} images asked for; {data.name} has {len(images)} in its {split} split")
    return images[:count]


def keep(run: RunFolder, name: str, picture: Any, numbers: Mapping[str, Any], *, json: bool) -> Path:
    """Save a picture and its numbers as `samples/<name>-<tag>.png` and `.json`, and say where."""
    path = run.samples / f"{name}-{tag(numbers)}.png"
    run.samples.mkdir(exist_ok=True)
    picture.save(path)
    values = record({**numbers, "picture": path.name})
    write_json(path.with_suffix(".json"), values)
    if json:
        show_json(values)
    else:
        say(f"wrote {path}")
    return path
