"""Image files, and folders of them: flat or with a subfolder per class; with or without splits."""

import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter
from pathlib import Path

import numpy as np

from isopix.core.files import MAX_BYTES, read_regular
from isopix.core.text import normal_form
from isopix.data.dataset import DataConfig
from isopix.data.decode import image_suffixes
from isopix.data.sources.base import (
    READERS,
    SPLIT_NAMES,
    Reader,
    Source,
    SourceSplit,
    SplitName,
    with_class_names,
)
from isopix.data.sources.files import entries_below, hash_below, suffix_of, unread_files
from isopix.data.sources.labels import METADATA, read_labels
from isopix.data.sources.split_names import READINGS, NamedSplits, by_split, named_split, splits_named
from isopix.storage.provenance import hash_bytes

MAX_LISTED = 5  # folders in a note

Images = dict[str, list[str]]  # by folder, "" or "train/cat/"; or by class, with the one key "" if flat


def read_folder(root: Path, config: DataConfig) -> Source:
    """Read images at any depth below class folders, the first of every class, then the second, and so on.

    Folders that name splits (`by_split`) may be above or below those of the classes. Images next to these
    have no label. Labels of `read_labels`, if there are any, stand instead of folders.
    """
    globs = [config.exclude] if isinstance(config.exclude, str) else config.exclude
    entries = [each for each in entries_below(root) if not any(fnmatchcase(each, glob) for glob in globs)]
    folders = _by_folder(entries)
    found = by_split(sorted(folders), root, config.splits)
    metadata = [each for each in entries if each.rpartition("/")[2] == METADATA]
    labels = read_labels(root, metadata, config)
    if config.splits == "auto" and labels is None:
        _require_one_level(root, found)
    places = _class_folders({split: _class_paths(found, split) for split in found})
    classes = {split: _by_class(folders, places[split]) for split in found}
    images = {split: _interleave(classes[split]) for split in SPLIT_NAMES if split in found}
    names = [name for own, _ in images.values() for name in own]
    empty = _empty_folders(entries, names)
    lost = splits_named(map(named_split, empty)) - {*found} if config.splits != "none" else set()
    if lost or not names:
        of = f" of {min(lost)}" if lost else ""
        unread = "".join(f"; {each}" for each in unread_files(root, entries, names))
        suffixes = " ".join(image_suffixes())
        raise ValueError(f"folder {root} has no images{of}; allowed suffixes: {suffixes}{unread}")
    notes = [f"{each} may hold labels; data.label_column=NAME chooses its column" for each in metadata[:1]]
    if labels is not None:
        if labels and not labels.keys() & {*names}:
            file = config.labels_file or root / metadata[0]
            raise ValueError(f"{file} has no path of an image; its first is {min(labels)!r}")
        images = {split: (own, [*map(labels.get, own)]) for split, (own, _) in images.items()}
        names, notes = [*names, *metadata], []
    notes += unread_files(root, entries, names)
    if empty:
        more = " ..." * (len(empty) > MAX_LISTED)
        notes.append(f"folders without images: {', '.join(empty[:MAX_LISTED])}{more}")
    return with_class_names(
        Source(
            root.resolve().name,
            {split: _folder_split(root, *each) for split, each in images.items()},
            classes=(),
            content_hash=_content_hash(root, names, config),
            has_columns=labels is not None,
            notes=tuple(notes),
        )
    )


def _content_hash(root: Path, names: Sequence[str], config: DataConfig) -> str:
    content_hash = hash_below(root, names, MAX_BYTES)
    if config.labels_file is None:
        return content_hash
    return hash_bytes(content_hash.encode(), read_regular(Path(config.labels_file).expanduser()))


def read_image(path: Path, config: DataConfig) -> Source:
    """Read one image file."""
    split = _folder_split(path.parent, [path.name], [None])
    content_hash = hash_below(path.parent, [path.name], MAX_BYTES)
    return with_class_names(Source(path.name, {"train": split}, (), content_hash))


def is_image(name: str) -> bool:
    """Return whether a file is an image, by suffix."""
    return suffix_of(name) in image_suffixes()


def has_images(root: Path) -> bool:
    """Return whether there is an image at any depth of a folder, by suffix."""
    return root.is_dir() and any(map(is_image, entries_below(root)))


def _folder_of(name: str) -> str:
    return name[: name.rstrip("/").rfind("/") + 1]


def _by_folder(entries: Iterable[str]) -> Images:
    images: Images = {}
    for name in filter(is_image, entries):
        images.setdefault(_folder_of(name), []).append(name)
    return images


def _require_one_level(root: Path, found: NamedSplits) -> None:
    every = [each for own in found.values() for each in own.values() if each]
    above, below = {each.above for each in every}, {each.below.partition("/")[0] for each in every} - {""}
    if len(above) > 1 and len(below) > 1:
        levels = f"above its folders of splits ({max(above)}) and below them ({min(below)}/)"
        raise ValueError(f"{root} has folders {levels}; {READINGS.format('classes are those above')}")


def _class_folders(paths: Mapping[SplitName, Mapping[str, str]]) -> dict[SplitName, dict[str, str]]:
    """Return the class of each folder: the first one on its path that not all have in common, else the first
    one; empty if there is none.
    """
    parts = [path.split("/") for own in paths.values() for path in own.values() if path]
    levels = enumerate(zip(*parts, strict=False))
    level = next((i for i, names in levels if len({*names}) > 1 and "" not in names), 0)
    return {
        split: {folder: path.split("/")[level] if path else "" for folder, path in own.items()}
        for split, own in paths.items()
    }


def _class_paths(found: NamedSplits, split: SplitName) -> dict[str, str]:
    """Return the path of each folder of a split, in which there may be that of a class.

    Folders that hold all splits, and those that name the split, are left out: also one in it of the same
    name, as archives unpack, if all images are in it.
    """
    every = [each for own in found.values() for each in own.values() if each]
    shared = os.path.commonpath([each.above for each in every]) if every else ""
    paths = {
        folder: each.above.removeprefix(shared).lstrip("/") + each.below if each else folder
        for folder, each in found[split].items()
    }
    parts = tuple({each.part for each in every if each.split == split})
    if len(parts) == 1 and all(path.startswith(parts) for path in paths.values()):
        paths = {folder: path.partition("/")[2] for folder, path in paths.items()}
    return paths


def _by_class(images: Images, class_of: Mapping[str, str]) -> Images:
    found: Images = {}
    for folder, name in sorted(class_of.items(), key=itemgetter(1)):
        found.setdefault(normal_form(name), []).extend(images[folder])
    return {name: sorted(own, key=lambda each: each.replace("/", "\0")) for name, own in found.items()}


def _empty_folders(entries: Iterable[str], read: Iterable[str]) -> list[str]:
    """Return the folders with none of the images that are read, but not those inside of such folders."""
    filled = {_folder_of(each) for each in read}
    while above := {_folder_of(each) for each in filled} - filled:
        filled |= above
    empty = {each for each in entries if each.endswith("/")} - filled
    return sorted(each for each in empty if _folder_of(each) not in empty)


def _interleave(found: Images) -> tuple[list[str], list[object]]:
    ranked = sorted((rank, name, each) for name, names in found.items() for rank, each in enumerate(names))
    return [each for *_, each in ranked], [name or None for _, name, _ in ranked]


def _folder_split(root: Path, names: list[str], labels: Sequence[object]) -> SourceSplit:
    return SourceSplit(
        num_images=len(names),
        read_range=lambda start, stop: (root / name for name in names[start:stop]),
        image_name=lambda i: str(root / names[i]),
        labels=np.array(labels, object),
    )


READERS["image"] = Reader(lambda path: is_image(path.name) and path.is_file(), read_image)
READERS["folder"] = Reader(Path.is_dir, read_folder)
