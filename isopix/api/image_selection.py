"""The images that functions for pictures and analyses read for a run."""

from dataclasses import replace

from isopix.core.choices import SplitName
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import unknown_images_warning
from isopix.pretrained.run import (
    DataLike,
    check_size,
    evaluation_data,
    is_own,
    load_images,
    logger,
    sample_of_each,
)
from isopix.runs.load import LoadedRun
from isopix.runs.seen import leave_out_seen

FIRST_IMAGES = 8  # that are completed or reconstructed


def select_split(
    loaded: LoadedRun, data: DataLike | None, split: SplitName | None, limit: int | None
) -> tuple[ImageDataset, SplitName]:
    """Return images and the split to take: the one requested, else test; of other images that have no test
    split, all. `limit` keeps at most that many images of each split.

    Images that the run was trained on or selected by are left out, unless its own training images are
    requested. A warning counts them, also where all are among them and are kept; another one says if they are
    not known. Raises ValueError for a dataset of another resolution.
    """
    if isinstance(data, ImageDataset):
        check_size(data, loaded)
        images, own = data, data.fingerprint == loaded.state.data
    elif data is None or is_own(loaded.recipe.data, data):
        images, own = load_images(evaluation_data(loaded, data, limit)), True
    else:
        images, own = load_images(replace(evaluation_data(loaded, data), holdout=0.0)), False
    chosen = split or ("test" if own or len(images.test) else "train")
    if not (own and chosen == "train"):
        images = _unseen(loaded, images, chosen)
    return sample_of_each(images, limit), chosen


def first_images(data: ImageDataset, split: SplitName, count: int | None) -> Images:
    """Return the first images of a split, by default `FIRST_IMAGES`, or all if there are fewer. Raises
    ValueError if there are fewer than `count`.
    """
    images = {"train": data.train, "validation": data.validation, "test": data.test}[split].images
    count = min(FIRST_IMAGES, len(images)) if count is None else count
    if not 1 <= count <= len(images):
        raise ValueError(f"{count} images requested; {data.name} has {len(images)} in its {split} split")
    return images[:count]


def _unseen(loaded: LoadedRun, images: ImageDataset, split: SplitName) -> ImageDataset:
    """Return the images without those of a split that the run has seen, or all if none would be left."""
    try:
        images, note = leave_out_seen(images, loaded.seen, split, known=loaded.seen_known)
    except ValueError as error:
        note = str(error)
    for text in (note, *unknown_images_warning(images, split)):
        if text:
            logger.warning("%s", text)
    return images
