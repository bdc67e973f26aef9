"""Image files, and folders of them: flat or with a sub-folder per class; with or without splits."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isopix.data.sources.base import SPLIT_ALIASES, Source, SourceSplit, SplitName, with_class_names
from isopix.data.sources.file_index import hash_table
from isopix.data.sources.file_table import FileTable

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")

Counts = dict[str, int]  # images of each class, in the order of their names; a flat folder has the one key ""


def read_folder(root: Path, index: Path | None = None) -> Source:
    """Read images at any depth below their class folder, by suffix; hidden files are ignored.

    The order is the first file of every class, then the second, and so on, so that the first n images cover
    all classes. In the folder `index` the hashes of files are kept (`hash_table`). Raises ValueError if there
    is no image, if splits, classes and images cannot be distinguished, or if a class is not in train.
    """
    folders = _split_folders(root)
    table = FileTable(root)
    found = {name: _list_classes(folder, table) for name, folder in folders.items()}
    for name, counts in found.items():
        if not sum(counts.values()):
            raise ValueError(
                f"folder {folders[name]} has no images; allowed suffixes: {' '.join(IMAGE_SUFFIXES)}"
            )
    classes = list(found["train"])
    splits: dict[SplitName, SourceSplit] = {}
    orders, first = [], 0
    for name, counts in found.items():
        unknown = sorted(set(counts) - set(classes) - {""})
        if unknown:
            raise ValueError(f"class '{unknown[0]}' of {folders[name]} is not a class of {folders['train']}")
        order, labels = _interleave(counts, classes)
        orders.append(order + first)
        first += len(order)
        splits[name] = _folder_split(table, orders[-1], labels)
    content_hash = hash_table(table, np.concatenate(orders).tolist(), index)
    return with_class_names(Source(root.resolve().name, splits, (), content_hash), filter(None, classes))


def read_image(path: Path) -> Source:
    """Read one image file."""
    table = FileTable(path.parent, [path.name])
    split = _folder_split(table, np.zeros(1, dtype=np.int64), None)
    return Source(path.name, {"train": split}, (), hash_table(table))


def is_image(name: str) -> bool:
    """Return whether a file is an image, by suffix."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES  # noqa: PTH122  faster than a Path


def has_images(root: Path) -> bool:
    """Return whether there is an image at any depth of a folder, by suffix."""
    return any(True for _ in _images_below(root, "", set()))


def _split_folders(root: Path) -> dict[SplitName, Path]:
    found: dict[SplitName, Path] = {}
    for word, name in SPLIT_ALIASES.items():
        if (root / word).is_dir():
            if name in found:
                raise ValueError(f"folder {root} has both {found[name].name}/ and {word}/; keep one")
            found[name] = root / word
    if not found:
        return {"train": root}
    others = sorted(
        entry.name for entry in _visible(root) if _is_folder(entry) and entry.name not in SPLIT_ALIASES
    )
    if others:  # "train" is a class of CIFAR-100
        raise ValueError(
            f"folder {root} has {next(iter(found.values())).name}/ and {others[0]}/, "
            "so it may be a split or a class; put all classes into one train/ folder, "
            "or keep only train/, val/ and test/"
        )
    if "train" not in found:
        raise ValueError(f"folder {root} has {next(iter(found.values())).name}/ but no train/")
    return found


def _list_classes(folder: Path, table: FileTable) -> Counts:
    """Add the images of a split to the table, class by class, and return how many there are of each."""
    flat, folders = [], []
    for entry in _visible(folder):
        if _is_folder(entry):
            folders.append(entry.name)
        elif is_image(entry.name):
            flat.append(entry.name)
    prefix = "" if folder == table.root else f"{folder.name}/"
    counts: Counts = {}
    for name in sorted(folders):
        names = [*_images_below(folder / name, f"{prefix}{name}/", {_identity(folder)})]
        if names:
            counts[name] = len(names)
            table.extend(sorted(names, key=lambda each: each.replace("/", "\0")))  # folder by folder
    if flat and counts:
        raise ValueError(
            f"folder {folder} has images next to its sub-folders ({min(flat)}) and inside them "
            f"({min(counts)}/); put all in sub-folders, one per class, or all in one folder"
        )
    table.extend(f"{prefix}{name}" for name in sorted(flat))
    return counts or {"": len(flat)}


def _images_below(folder: Path, prefix: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    if _identity(folder) in seen:  # a symlink to a parent folder
        return
    seen.add(_identity(folder))
    for entry in _visible(folder):
        if _is_folder(entry):
            yield from _images_below(folder / entry.name, f"{prefix}{entry.name}/", seen)
        elif is_image(entry.name):
            yield prefix + entry.name


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _visible(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of symlinks
        return False


def _interleave(counts: Counts, classes: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the order of the images of a split, listed class by class, and their labels in this order."""
    sizes = np.array(list(counts.values()), dtype=np.int64)
    columns = np.repeat(np.arange(len(sizes)), sizes)
    ranks = np.arange(len(columns)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    order = np.lexsort((columns, ranks))
    if "" in counts:
        return order, None
    indices = {name: i for i, name in enumerate(classes)}
    labels = np.array([indices[name] for name in counts], dtype=np.int64)
    return order, labels[columns[order]]


def _folder_split(
    table: FileTable, order: NDArray[np.int64], labels: NDArray[np.int64] | None
) -> SourceSplit:
    return SourceSplit(
        num_images=len(order),
        read_range=lambda start, stop: map(table.path, order[start:stop].tolist()),
        image_name=lambda i: table.location(int(order[i])),
        labels=labels,
    )
