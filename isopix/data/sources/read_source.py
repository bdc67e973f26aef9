"""Open a source by the name of a dataset, or by the path of a file or folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from isopix.core.suggestions import did_you_mean, similar_paths
from isopix.data.augment import AugmentationSpec, NoAugmentation
from isopix.data.sources.arrow import cached_files, is_saved, read_arrow
from isopix.data.sources.base import Source
from isopix.data.sources.codes import TRAIN, is_coded, palette_beside, read_codes
from isopix.data.sources.digits import Canvas, read_digits, read_translated_digits
from isopix.data.sources.folder import has_images, is_image, read_folder, read_image
from isopix.data.sources.hub import HUB_DATASETS, LOCAL_SOURCES, read_hub
from isopix.data.sources.npz import read_npz
from isopix.data.sources.parquet import parquet_files, read_parquet
from isopix.data.sources.webdataset import is_tar, read_webdataset, tar_files

DIGITS = ("digits", "translated-digits")
DATASET_NAMES = (*DIGITS, *HUB_DATASETS)


def finetune_augmentation(source: str) -> AugmentationSpec | None:
    """Return how a dataset with this name is augmented in fine-tuning; None for all other sources.

    CIFAR is padded, cropped and flipped (iGPT section 3.1); digits are not augmented, as their mirror images
    are other characters.
    """
    if source in DIGITS:
        return NoAugmentation()
    return HUB_DATASETS[source].augment if source in HUB_DATASETS else None


def palette_of(source: str) -> Path | None:
    """Return the palette that the images of a source index, if they are given as codes."""
    path = Path(source).expanduser()
    if source in DATASET_NAMES or not (path.name.endswith(TRAIN) or (path.is_dir() and is_coded(path))):
        return None
    return palette_beside(path)


def find_reader(source: str, canvas: Canvas, index: Path | None = None) -> Callable[[], Source]:
    """Return what reads the source with that name or at that path; nothing is read before it is called.

    A name takes precedence over a folder of that name. `canvas` is that of translated-digits, and the size of
    images that are given as codes. In the folder `index` the hashes of files are kept (`hash_table`). Raises
    ValueError if the source is neither.
    """
    if source == "digits":
        return read_digits
    if source == "translated-digits":
        return partial(read_translated_digits, canvas)
    if source in HUB_DATASETS:
        return partial(read_hub, source)
    path = Path(source).expanduser()
    if (path / "recipe.json").is_file():
        raise ValueError(f"folder {path} is a run folder; as a dataset give {LOCAL_SOURCES}")
    if path.is_dir():
        return _folder_reader(path, canvas, index)
    alternatives = f"give {LOCAL_SOURCES}, or one of: {', '.join(DATASET_NAMES)}"
    if not path.exists():
        hint = did_you_mean(source, [*DATASET_NAMES, *similar_paths(path)])
        problem = f"no file or folder '{source}' exists, and no dataset has that name"
        raise ValueError(f"{problem}; {hint}{alternatives}")
    reader = _file_reader(path, canvas, index)
    if reader is None:
        raise ValueError(f"{path} is not a dataset; {alternatives}")
    return reader


def _file_reader(path: Path, canvas: Canvas, index: Path | None) -> Callable[[], Source] | None:
    if is_tar(path):
        return partial(read_webdataset, path, index)
    if is_image(path.name):
        return partial(read_image, path)
    readers: dict[str, Callable[[], Source]] = {
        ".npz": partial(read_npz, path),
        ".npy": partial(read_codes, path, canvas),
        ".arrow": partial(read_arrow, path, index),
        ".parquet": partial(read_parquet, path, index),
    }
    return readers.get(path.suffix.lower())


def _folder_reader(path: Path, canvas: Canvas, index: Path | None) -> Callable[[], Source]:
    if is_coded(path):
        return partial(read_codes, path, canvas)
    if parquet_files(path):
        return partial(read_parquet, path, index)
    if is_saved(path):
        return partial(read_arrow, path, index)
    arrow, tar = bool(cached_files(path)), bool(tar_files(path))
    if (arrow or tar) and not has_images(path):
        return partial(read_arrow if arrow else read_webdataset, path, index)
    return partial(read_folder, path, index)
