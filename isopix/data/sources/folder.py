"""Folders of images: flat or a sub-folder a class; in train/, val/ (or validation/, valid/), test/ or not."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np

from isopix.data.sources.base import SPLIT_WORDS, Part, Source, SplitName, class_names, digest_tree

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")

Classes = dict[str, list[Path]]  # "" holds the images of a flat folder


def read_folder(root: Path) -> Source:
    """Images by suffix, at any depth below their class; hidden names are passed over.

    The order takes the first file of every class, then the second, ..., so the first n images show every
    class. Raises ValueError if there is no image, if splits, classes and images cannot be told apart, or if a
    class is not among those of train.
    """
    folders = _split_folders(root)
    found = {name: _classes(folder) for name, folder in folders.items()}
    for name, classes in found.items():
        if not any(classes.values()):
            raise ValueError(f"folder {folders[name]} holds no images; allowed endings: {' '.join(SUFFIXES)}")
    names = sorted(found["train"])
    files: dict[SplitName, list[tuple[Path, int]]] = {}
    for name, classes in found.items():
        strange = sorted(set(classes) - set(names) - {""})
        if strange:
            raise ValueError(
                f"class '{strange[0]}' of {folders[name]} is not among those of {folders['train']}"
            )
        files[name] = _interleave(classes, names)
    parts = {
        name: _part([path for path, _ in rows], None if "" in found[name] else [label for _, label in rows])
        for name, rows in files.items()
    }
    tree = {path.relative_to(root).as_posix(): path for rows in files.values() for path, _ in rows}
    return Source(
        root.resolve().name, parts, class_names((name for name in names if name), parts), digest_tree(tree)
    )


def _split_folders(root: Path) -> dict[SplitName, Path]:
    found: dict[SplitName, Path] = {}
    for word, name in SPLIT_WORDS.items():
        if (root / word).is_dir():
            if name in found:
                raise ValueError(f"folder {root} has both {found[name].name}/ and {word}/; keep one")
            found[name] = root / word
    if not found:
        return {"train": root}
    others = sorted(path.name for path in _visible(root) if path.is_dir() and path.name not in SPLIT_WORDS)
    if others:  # `train` is a class of CIFAR-100
        raise ValueError(
            f"folder {root} has {next(iter(found.values())).name}/ beside {others[0]}/, "
            "so it may be a split or a class; put all classes into one train/ folder, "
            "or leave nothing but train/, val/ and test/"
        )
    if "train" not in found:
        raise ValueError(f"folder {root} has {next(iter(found.values())).name}/ but no train/")
    return found


def _classes(folder: Path) -> Classes:
    entries = sorted(_visible(folder))
    flat = [path for path in entries if _is_image(path)]
    classes = {
        path.name: sorted(_images_below(path, {_identity(folder)})) for path in entries if path.is_dir()
    }
    classes = {name: files for name, files in classes.items() if files}
    if flat and classes:
        raise ValueError(
            f"folder {folder} has images beside its sub-folders ({flat[0].name}) and inside them "
            f"({min(classes)}/); put all in sub-folders, one a class, or all in one folder"
        )
    return classes or {"": flat}


def _images_below(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    if _identity(folder) in seen:  # a link back to a parent
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
    return path.suffix.lower() in SUFFIXES and not path.is_dir()


def _interleave(classes: Classes, names: list[str]) -> list[tuple[Path, int]]:
    order = sorted(classes)
    columns = [classes[name] for name in order]
    numbers = [names.index(name) if name in names else -1 for name in order]
    return [
        (path, numbers[column])
        for row in zip_longest(*columns)
        for column, path in enumerate(row)
        if path is not None
    ]


def _part(files: list[Path], labels: list[int] | None) -> Part:
    return Part(
        count=len(files),
        pictures=lambda: iter(files),
        name=lambda i: str(files[i]),
        labels=None if labels is None else np.array(labels, dtype=np.int64),
    )
