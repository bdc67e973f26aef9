"""The images that verbs read for a run, of its own dataset, of another one or of a caller, and pictures."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from einops import rearrange
from PIL import Image

from isopix.analysis.neighbors import nearest_images
from isopix.analysis.results import NamedImage
from isopix.core.choices import Count, SplitName
from isopix.core.text import printable
from isopix.core.types import Images
from isopix.core.verb import checked
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.load import load_dataset
from isopix.data.measurement import images_hash, unknown_images_warning
from isopix.data.sources.base import SPLIT_NAMES, require_known_source
from isopix.data.splits import Split
from isopix.data.survey import image_names
from isopix.generate.results import NearestTraining, PictureResult
from isopix.plots.images import png_bytes, sample_grid
from isopix.pretrained.inputs import ArrayLike, ImagesLike, as_images, require_images
from isopix.pretrained.neighbors import NamedSplits
from isopix.pretrained.run import logger, require_writable
from isopix.runs.image_lists import leave_out_seen
from isopix.runs.load import LoadedRun
from isopix.storage.atomic import replace_file
from isopix.storage.result import Measurement
from isopix.storage.run_folder import RunFolder, own_folder

P = TypeVar("P", bound=PictureResult)
DataLike = str | os.PathLike[str]

FIRST_IMAGES = 8  # that are completed or reconstructed
MAX_HELD_OUT = 256  # images that samples are compared with
DIGITS = 3  # decimals of a distance


def load_images(settings: DataConfig) -> ImageDataset:
    """Load a dataset; unreadable files and copies that are left out are logged as warnings."""
    images = load_dataset(settings)
    for note in images.notes:
        logger.warning("%s", note)
    return images


def evaluation_data(
    loaded: LoadedRun, data: DataLike | None, limit: int | None = None, holdout: float | None = None
) -> DataConfig:
    """Return the data settings of `opened_images`; the run's own path must be known to this user."""
    settings = loaded.recipe.data
    if data is None:
        require_known_source(settings.source)
    else:
        if not is_own(settings, data):
            columns: dict[str, Any] = {"label_column": None, "image_column": None, "labels_file": None}
            settings = replace(settings, splits="auto", exclude=(), **columns)
        settings = replace(settings, source=os.fspath(data), limit=None)
    return replace(
        settings,
        limit=settings.limit if limit is None else limit,
        holdout=settings.holdout if holdout is None else holdout,
        train_on_validation=False,
        labels_per_class=None,
        subset=0,
    )


def opened_images(
    loaded: LoadedRun,
    data: DataLike | None,
    limit: int | None = None,
    holdout: float | None = None,
    settings: Sequence[str] = (),
) -> ImageDataset:
    """Return other images, or the run's own; `holdout` is the validation fraction of train."""
    config = evaluation_data(loaded, data, limit, holdout).updated(settings)
    height, width = loaded.network.codec.image_size
    if (config.rows, config.cols) != (height, width):
        given = f"data.rows is {config.rows} and data.cols {config.cols}"
        raise ValueError(f"{given}; this model reads {height} x {width}")
    return load_images(config)


def sample_of_each(data: ImageDataset, limit: int | None) -> ImageDataset:
    """Return `limit` images of each split, equally many of each class as far as possible; all for None."""
    seed = data.seed or 0
    return replace(data, **{name: getattr(data, name).balanced_sample(limit, seed) for name in SPLIT_NAMES})


def evaluation_images(
    loaded: LoadedRun, data: DataLike | None, limit: int | None = None, settings: Sequence[str] = ()
) -> ImageDataset:
    """Return `opened_images` without test images that the run has seen, which a warning counts."""
    images = opened_images(loaded, data, limit, settings=settings)
    images, left_out = leave_out_seen(images, loaded.seen, known=loaded.seen_known)
    if left_out:
        logger.warning("%s", left_out)
    return images


def is_own(own: DataConfig, data: DataLike | None) -> bool:
    """Return whether these are the images of a run with these data settings, by name or path."""
    return data is None or own.source in (os.fspath(data), str(Path(data).resolve()))


def leakage_warning(own: DataConfig, data: DataLike | None) -> tuple[str, ...]:
    """Return a warning if a run with these data settings was trained on the validation images of `data`."""
    text = (
        "the run was refitted on training and validation images: choices made on the validation split are "
        "biased and validation accuracies are too high; the test images are unseen"
    )
    return (text,) if own.train_on_validation and is_own(own, data) else ()


def labels_warning(loaded: LoadedRun) -> tuple[str, ...]:
    """Return a warning if a network was trained on labels, or if that is not known."""
    seen = loaded.state.labels_seen
    count = "an unknown number of labels" if seen is None else f"the labels of {seen:,} images"
    text = (
        f"the network was trained on {count} before: these are not errors of few labels; for those, use the "
        "run before fine-tuning"
    )
    return () if seen == 0 else (text,)


def _short_names(names: Sequence[str]) -> list[str]:
    """Return the names of images as seen from the folder that all are in, if there is one."""
    folders = {os.path.split(each)[0] for each in names}
    is_mixed = len({each.startswith(os.sep) for each in folders}) != 1  # or there are none
    folder = "" if is_mixed else os.path.commonpath(folders)
    return [each if folder in ("", os.sep) else os.path.relpath(each, folder) for each in names]


def select_split(
    loaded: LoadedRun, data: DataLike | None, split: SplitName | None, limit: int | None
) -> tuple[ImageDataset, SplitName]:
    """Return images and the split to take: the one requested, else test; of others without a test split, all.

    Images that the run was trained on or selected by are left out, unless its own training images are
    requested. A warning counts them, also if all are kept as all are known, or says that they are not known.
    """
    own = is_own(loaded.recipe.data, data)
    images = opened_images(loaded, data, limit if own else None, None if own else 0.0)
    chosen = split or ("test" if own or len(images.test) else "train")
    if not (own and chosen == "train"):
        try:
            images, note = leave_out_seen(images, loaded.seen, chosen, known=loaded.seen_known)
        except ValueError as error:
            note = str(error)
        for text in filter(None, (note, *unknown_images_warning(images, chosen))):
            logger.warning("%s", text)
    return sample_of_each(images, limit), chosen


def named_images(config: DataConfig, splits: Mapping[SplitName, Split]) -> list[NamedImage]:
    """Return the name of each image in its source, also without the folder of all."""
    names = {name: image_names(config, each) for name, each in splits.items()}
    found = [(split, i, each) for split, own in names.items() for i, each in enumerate(own)]
    return [
        NamedImage(split, i, printable(name), printable(short))
        for (split, i, name), short in zip(found, _short_names([each for *_, each in found]), strict=True)
    ]


def named_splits(
    loaded: LoadedRun,
    data: DataLike | None,
    split: SplitName | None,
    limit: int | None,
    settings: Sequence[str] = (),
) -> NamedSplits:
    """Return the splits with images, of the run's own data those of the run. Raises ValueError for none."""
    holdout = None if split or is_own(loaded.recipe.data, data) else 0.0
    dataset = opened_images(loaded, data, limit, holdout, settings)
    dataset = replace(dataset, seen_known=loaded.seen_known)
    splits = {name: getattr(dataset, name) for name in ([split] if split else SPLIT_NAMES)}
    splits = {name: each for name, each in splits.items() if len(each)}
    if not splits:
        raise ValueError(f"dataset '{dataset.name}' has no images of {split or 'any'} split")
    source = evaluation_data(loaded, data).updated(settings)
    return NamedSplits(dataset, splits, named_images(source, splits), source)


def prompt_images(
    loaded: LoadedRun,
    images: ImagesLike | None,
    data: DataLike | None,
    split: SplitName | None,
    count: int | None,
    limit: int | None,
) -> tuple[Images, Measurement]:
    """Return the images given, or the first `count` of a split, and what is measured on them."""
    if images is not None:
        inputs = require_images(as_images(images, loaded)).cpu()
        given, content = len(inputs), images_hash(Split(inputs))
        measured = Measurement(data="", split=None, images=given, available=given, images_hash=content)
        return inputs, loaded.measured(measured)
    found, chosen = select_split(loaded, data, split, limit)
    part: Split = getattr(found, chosen)
    count = min(FIRST_IMAGES, len(part)) if count is None else count
    if not 1 <= count <= len(part):
        raise ValueError(f"{count} images requested; {found.name} has {len(part)} in its {chosen} split")
    return part.images[:count], loaded.measure(found, chosen, part.select(torch.arange(count)))


def nearest_training(loaded: LoadedRun, images: Images) -> tuple[NearestTraining, Images]:
    """Return the nearest training images of some images, with distances, also of held-out ones."""
    data, _ = select_split(loaded, None, "train", None)
    training, network = data.train.images, loaded.network
    found = nearest_images(images, training)
    held_out = (data.test if len(data.test) else data.validation).sample(MAX_HELD_OUT).images[:]
    shown = network.codec.decode(network.codec.encode(held_out.to(network.device))).cpu()
    others = nearest_images(shown, training).distances.tolist() if len(shown) else []
    distances = NearestTraining(
        num_training=len(training),
        distances=tuple(round(each, DIGITS) for each in found.distances.tolist()),
        held_out=tuple(round(each, DIGITS) for each in others),
    )
    return distances, training[found.indices]


def results_folder(out: Path | None, run: RunFolder | None, name: str) -> Path | None:
    """Return a folder that can be written for results; None for a model without a run folder."""
    path = own_folder(run.path, name) if run and out is None else out
    if path is not None:
        require_writable(path)
    return path


def save_picture(result: P, folder: RunFolder | None, out: Path | None, name: str) -> P:
    """Write the picture of a result and its record to a file or folder `out`, else to the run's, if any."""
    place = out or (None if folder is None else folder.samples)
    if place is None:
        return result
    path = place if place.suffix else result.named(place, result.step, name).with_suffix(".png")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, png_bytes(result.picture))
    return result.saved(path)


@checked
def make_grid(images: ArrayLike, columns: Count | None = None, *, scale: Count | None = None) -> Image.Image:
    """Return uint8 images [B 3 H W] as one picture, or completions [B each 3 H W] with a row for each."""
    images = torch.as_tensor(images)
    if images.dtype != torch.uint8 or images.ndim not in (4, 5) or images.shape[-3] != 3:
        given = f"{images.dtype} of shape {list(images.shape)}"
        raise ValueError(f"expected uint8 images [B 3 H W] or [B each 3 H W], got {given}")
    if images.ndim == 5:
        columns = columns or images.shape[1]
        images = rearrange(images, "b each c h w -> (b each) c h w")
    return sample_grid(images.cpu(), columns=columns, scale=scale)
