"""Image files, and folders of them: flat or with a sub-folder per class; with or without splits."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from isopix.data.file_hashes import hash_names
from isopix.data.sources.base import (
    READERS,
    SPLIT_ALIASES,
    Reader,
    ReadOptions,
    Source,
    SourceSplit,
    SplitName,
    require_train,
    with_class_names,
)
from isopix.data.sources.labels import Labels, label_array
from isopix.data.sources.metadata import read_metadata

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")

Classes = dict[str, list[str]]  # images of each class; a flat folder has the one key ""


def read_folder(root: Path, options: ReadOptions) -> Source:
    """Read images at any depth below class folders, the first of every class, then the second, and so on.

    Labels are the class folders; without those, or with a label column in the options, see `read_metadata`.
    """
    folders = _split_folders(root)
    prefixes = {split: "" if each == root else f"{each.name}/" for split, each in folders.items()}
    found = {split: _list_classes(folders[split], prefix) for split, prefix in prefixes.items()}
    for split, classes in found.items():
        if not any(classes.values()):
            folder, allowed = folders[split], " ".join(IMAGE_SUFFIXES)
            raise ValueError(f"folder {folder} has no images; allowed suffixes: {allowed}")
    images = {split: _interleave(classes) for split, classes in found.items()}
    names = [name for own, _ in images.values() for name in own]
    has_classes = any(len(classes) > 1 for classes in found.values())
    metadata = read_metadata(root, prefixes.values(), names, options, has_classes=has_classes)
    splits = dict[SplitName, SourceSplit]()
    for split, (own, labels) in images.items():
        known = label_array(map(metadata.labels.get, own)) if metadata.labels else labels
        splits[split] = _folder_split(root, own, known)
    content_hash = hash_names(root, [*names, *metadata.files], options.index)
    return with_class_names(Source(root.resolve().name, splits, (), content_hash, label_notes=metadata.notes))


def read_image(path: Path, options: ReadOptions) -> Source:
    """Read one image file."""
    split = _folder_split(path.parent, [path.name], None)
    return Source(path.name, {"train": split}, (), hash_names(path.parent, [path.name]))


def is_image(name: str) -> bool:
    """Return whether a file is an image, by suffix."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES  # noqa: PTH122  faster than a Path


def has_images(root: Path) -> bool:
    """Return whether there is an image at any depth of a folder, by suffix."""
    return any(True for _ in _images_below(root, "", set()))


def _split_folders(root: Path) -> dict[SplitName, Path]:
    found: dict[SplitName, Path] = {}
    for word in (each for each in SPLIT_ALIASES if (root / each).is_dir()):
        name = SPLIT_ALIASES[word]
        if name in found:
            raise ValueError(f"folder {root} has both {found[name].name}/ and {word}/; keep one")
        found[name] = root / word
    if not found:
        return {"train": root}
    others = [each.name for each in _visible(root) if _is_folder(each) and each.name not in SPLIT_ALIASES]
    if others:  # "train" is a class of CIFAR-100
        first = next(iter(found.values())).name
        raise ValueError(
            f"folder {root} has {first}/ and {min(others)}/, so it may be a split or a class; "
            "put all classes into one train/ folder, or keep only train/, val/ and test/"
        )
    require_train(found, root)
    return found


def _list_classes(folder: Path, prefix: str) -> Classes:
    entries = list(_visible(folder))
    flat = [prefix + each.name for each in entries if is_image(each.name) and not _is_folder(each)]
    found: Classes = {}
    for name in sorted(each.name for each in entries if _is_folder(each)):
        names = [*_images_below(folder / name, f"{prefix}{name}/", {_identity(folder)})]
        if names:
            found[name] = sorted(names, key=lambda each: each.replace("/", "\0"))  # folder by folder
    if flat and found:
        raise ValueError(
            f"folder {folder} has images next to its sub-folders ({min(flat).removeprefix(prefix)}) and "
            f"inside them ({min(found)}/); put all in sub-folders, one per class, or all in one folder"
        )
    return found or {"": sorted(flat)}


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
    with suppress(OSError):  # a loop of symlinks
        return entry.is_dir()
    return False


def _interleave(found: Classes) -> tuple[list[str], Labels | None]:
    ranked = sorted((rank, name, each) for name, names in found.items() for rank, each in enumerate(names))
    labels = None if "" in found else np.array([name for _, name, _ in ranked], object)
    return [each for *_, each in ranked], labels


def _folder_split(root: Path, names: list[str], labels: Labels | None) -> SourceSplit:
    return SourceSplit(
        num_images=len(names),
        read_range=lambda start, stop: (root / name for name in names[start:stop]),
        image_name=lambda i: str(root / names[i]),
        labels=labels,
    )


READERS["image"] = Reader(lambda path: is_image(path.name) and path.is_file(), read_image)
READERS["folder"] = Reader(Path.is_dir, read_folder, has_columns=True)
