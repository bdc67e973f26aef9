"""Folders of images: flat or with one sub-folder per class; with or without train/, val/ and test/."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np

from isopix.data.sources.base import SPLIT_ALIASES, Source, SourceSplit, SplitName, with_class_names
from isopix.storage.hashing import hash_tree

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")

FilesByClass = dict[str, list[Path]]  # a flat folder has the one key ""


def read_folder(root: Path) -> Source:
    """Read images at any depth below their class folder, by suffix; hidden files are ignored.

    The order is the first file of every class, then the second, and so on, so that the first n images cover
    all classes. Raises ValueError if there is no image, if splits, classes and images cannot be
    distinguished, or if a class is not in train.
    """
    folders = _split_folders(root)
    found = {name: _classes(folder) for name, folder in folders.items()}
    for name, classes in found.items():
        if not any(classes.values()):
            raise ValueError(
                f"folder {folders[name]} has no images; allowed suffixes: {' '.join(IMAGE_SUFFIXES)}"
            )
    names = sorted(found["train"])
    files: dict[SplitName, list[tuple[Path, int]]] = {}
    for name, classes in found.items():
        unknown = sorted(set(classes) - set(names) - {""})
        if unknown:
            raise ValueError(f"class '{unknown[0]}' of {folders[name]} is not a class of {folders['train']}")
        files[name] = _interleave(classes, names)
    splits = {
        name: _folder_split(
            [path for path, _ in rows], None if "" in found[name] else [label for _, label in rows]
        )
        for name, rows in files.items()
    }
    tree = {path.relative_to(root).as_posix(): path for rows in files.values() for path, _ in rows}
    source = Source(root.resolve().name, splits, (), hash_tree(tree))
    return with_class_names(source, (name for name in names if name))


def _split_folders(root: Path) -> dict[SplitName, Path]:
    found: dict[SplitName, Path] = {}
    for word, name in SPLIT_ALIASES.items():
        if (root / word).is_dir():
            if name in found:
                raise ValueError(f"folder {root} has both {found[name].name}/ and {word}/; keep one")
            found[name] = root / word
    if not found:
        return {"train": root}
    others = sorted(path.name for path in _visible(root) if path.is_dir() and path.name not in SPLIT_ALIASES)
    if others:  # "train" is a class of CIFAR-100
        raise ValueError(
            f"folder {root} has {next(iter(found.values())).name}/ and {others[0]}/, "
            "so it may be a split or a class; put all classes into one train/ folder, "
            "or keep only train/, val/ and test/"
        )
    if "train" not in found:
        raise ValueError(f"folder {root} has {next(iter(found.values())).name}/ but no train/")
    return found


def _classes(folder: Path) -> FilesByClass:
    entries = sorted(_visible(folder))
    flat = [path for path in entries if _is_image(path)]
    classes = {
        path.name: sorted(_images_below(path, {_identity(folder)})) for path in entries if path.is_dir()
    }
    classes = {name: files for name, files in classes.items() if files}
    if flat and classes:
        raise ValueError(
            f"folder {folder} has images next to its sub-folders ({flat[0].name}) and inside them "
            f"({min(classes)}/); put all in sub-folders, one per class, or all in one folder"
        )
    return classes or {"": flat}


def _images_below(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    if _identity(folder) in seen:  # a symlink to a parent folder
        return
    seen.add(_identity(folder))
    for path in _visible(folder):
        if path.is_dir():
            yield from _images_below(path, seen)
        elif _is_image(path):
            yield path


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _visible(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if not path.name.startswith("."))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.is_dir()


def _interleave(classes: FilesByClass, names: list[str]) -> list[tuple[Path, int]]:
    order = sorted(classes)
    columns = [classes[name] for name in order]
    indices = {name: index for index, name in enumerate(names)}
    labels = [indices.get(name, -1) for name in order]
    return [
        (path, labels[column])
        for row in zip_longest(*columns)
        for column, path in enumerate(row)
        if path is not None
    ]


def _folder_split(files: list[Path], labels: list[int] | None) -> SourceSplit:
    return SourceSplit(
        num_images=len(files),
        read_range=lambda start, stop: iter(files[start:stop]),
        image_name=lambda i: str(files[i]),
        labels=None if labels is None else np.array(labels, dtype=np.int64),
    )
