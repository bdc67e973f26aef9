"""The images that pictures and analyses of a run are made of, and the pictures."""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from einops import rearrange
from PIL import Image

from isopix.analysis.nearest_images import nearest_images
from isopix.core.choices import Count, SplitName
from isopix.core.measurement import Measurement
from isopix.core.types import Images
from isopix.core.verb import checked
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import images_hash, unknown_images_warning
from isopix.data.splits import Split
from isopix.generate.results import NearestTraining, PictureResult
from isopix.plots.images import png_bytes, sample_grid
from isopix.pretrained.inputs import ArrayLike, ImagesLike, as_images, require_images
from isopix.pretrained.run import (
    DataLike,
    check_size,
    evaluation_data,
    is_own,
    load_images,
    logger,
    require_writable,
    sample_of_each,
)
from isopix.runs.image_lists import leave_out_seen
from isopix.runs.load import LoadedRun
from isopix.storage.atomic import replace_file
from isopix.storage.run_folder import RunFolder

P = TypeVar("P", bound=PictureResult)

FIRST_IMAGES = 8  # that are completed or reconstructed
MAX_HELD_OUT = 256  # images that samples are compared with
DIGITS = 3  # decimals of a distance


def results_folder(out: Path | None, default: Path | None) -> Path | None:
    """Return the folder for results, before anything is computed; None for a model without a run folder.

    Raises ValueError if it cannot be written.
    """
    path = out or default
    if path is not None:
        if path.exists() and not path.is_dir():
            raise ValueError(f"out {path} is a file; results are several files: give a folder")
        require_writable(path)
    return path


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


def prompt_images(
    loaded: LoadedRun,
    images: ImagesLike | None,
    data: DataLike | None,
    split: SplitName | None,
    count: int | None,
    limit: int | None,
) -> tuple[Images, Measurement]:
    """Return the images given, or the first of a split, and what is measured on them."""
    if images is not None:
        inputs = require_images(as_images(images, loaded)).cpu()
        given, content = len(inputs), images_hash(Split(inputs))
        measured = Measurement(data="", split=None, images=given, available=given, images_hash=content)
        return inputs, loaded.measured(measured)
    found, chosen = select_split(loaded, data, split, limit)
    inputs = first_images(found, chosen, count)
    used: Split = getattr(found, chosen).select(torch.arange(len(inputs)))
    return inputs, loaded.measure(found, chosen, used)


def nearest_training(loaded: LoadedRun, images: Images) -> tuple[NearestTraining, Images]:
    """Return the nearest training images of the run's dataset to some images, and the distances, also of at
    most 256 test images, or validation images, as the network reads them.
    """
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


def save_picture(result: P, folder: RunFolder | None, name: str) -> P:
    """Write the picture of a result and its record to the `samples` folder of a run, if there is one."""
    if folder is None:
        return result
    path = result.named(folder.samples, result.step, name).with_suffix(".png")
    path.parent.mkdir(exist_ok=True)
    replace_file(path, png_bytes(result.picture))
    return result.saved(path)


@checked
def make_grid(images: ArrayLike, columns: Count | None = None, *, scale: Count | None = None) -> Image.Image:
    """Return uint8 images [B 3 H W] in reading order as one picture, each pixel `scale` pixels wide; of
    completions [B each 3 H W] by default a row for each image. A notebook shows it below the cell.

    Raises ValueError for no images, and for other shapes.
    """
    images = torch.as_tensor(images)
    if images.dtype != torch.uint8 or images.ndim not in (4, 5) or images.shape[-3] != 3:
        given = f"{images.dtype} of shape {list(images.shape)}"
        raise ValueError(f"expected uint8 images [B 3 H W] or [B each 3 H W], got {given}")
    if images.ndim == 5:
        columns = columns or images.shape[1]
        images = rearrange(images, "b each c h w -> (b each) c h w")
    return sample_grid(images.cpu(), columns=columns, scale=scale)
