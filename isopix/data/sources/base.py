"""Source: the splits, labels and class names of a dataset, before any image is decoded."""

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isopix.core import choices
from isopix.core.text import command_line, did_you_mean, similar_paths
from isopix.data.augment import AugmentationSpec
from isopix.data.decode import MAX_PIXELS, RawImage
from isopix.data.file_hashes import hash_names
from isopix.data.formats import FORMATS, local_formats
from isopix.storage.provenance import hash_bytes

SplitName = choices.SplitName

Files = Mapping[SplitName, Sequence[Path]]
SPLIT_NAMES: tuple[SplitName, ...] = ("train", "validation", "test")

# Words for splits in the names of folders and files.
SPLIT_ALIASES: dict[str, SplitName] = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
}
SPLIT_WORD = re.compile(rf"(?:.*[-_.])?({'|'.join(SPLIT_ALIASES)})(?=[-_.]|$)")  # the last of several

MAX_CLASSES = 100_000  # ImageNet-21k has 21,843
MAX_INDEX = 1_000  # unnamed labels up to here are class indices, also if some are missing; above it, ids
DEFAULT_HOLDOUT = 0.1  # iGPT section 3.1: CIFAR-10, CIFAR-100, STL-10; ImageNet holds out 0.04


@dataclass(frozen=True)
class SourceSplit:
    """One split of a source, or a part of one, in a fixed order."""

    num_images: int
    read_range: Callable[[int, int], Iterator[RawImage]]  # what `images` yields for a start and a stop
    image_name: Callable[[int], str]  # of image i, for messages
    labels: NDArray[np.integer[Any]] | None = None
    groups: NDArray[np.int64] | None = None  # what each image was made from; None: images are independent

    def images(self, start: int = 0, stop: int | None = None) -> Iterator[RawImage]:
        """Yield the images from index `start` to `stop - 1`, without reading those before; all by default."""
        return self.read_range(start, self.num_images if stop is None else stop)


@dataclass(frozen=True)
class Source:
    """The splits of a dataset; `content_hash` changes with any byte of its content."""

    name: str
    splits: Mapping[SplitName, SourceSplit]
    classes: tuple[str, ...]  # class names; empty without labels
    content_hash: str
    holdout: float = DEFAULT_HOLDOUT
    fixed: bool = False  # a published dataset, of which exact numbers of images are held out
    label_note: str = ""  # how labels were mapped to class indices, if they were


@dataclass(frozen=True)
class ReadOptions:
    """What a reader needs beside the path."""

    rows: int = 32  # pixels of images that have no size: palette codes, and the canvas of translated-digits
    cols: int = 32
    placements: int = 6  # of each digit on this canvas
    index: Path | None = None  # where hashes of files are kept (`hash_names`)
    max_pixels: int = MAX_PIXELS  # of an image


class Reader(NamedTuple):
    """What reads the files of a format: those that `claims` is true of."""

    claims: Callable[[Path], bool]
    read: Callable[[Path, ReadOptions], Source]


class NamedDataset(NamedTuple):
    """A dataset known by name, and how it is augmented in fine-tuning if the literature agrees on it."""

    read: Callable[[ReadOptions], Source]
    augment: AugmentationSpec | None = None


READERS: dict[str, Reader] = {}  # by their names in `FORMATS`
DATASETS: dict[str, NamedDataset] = {}


def find_reader(source: str, options: ReadOptions) -> Callable[[], Source]:
    """Return what reads the source with that name, or else at that path; nothing is read before."""
    if source in DATASETS:
        return partial(DATASETS[source].read, options)
    path = Path(source).expanduser()
    problem, hint = f"no file or folder '{source}' exists, and no dataset has that name", ""
    if (path / "recipe.json").is_file():
        problem = f"{path} is a run folder"
    elif source and path.exists():
        problem = f"{path} is not a dataset"
        for reader in (READERS[name] for name in reversed(FORMATS)):
            if reader.claims(path):
                return partial(reader.read, path, options)
    else:
        hint = did_you_mean(source, [*DATASETS, *similar_paths(path)])
    raise ValueError(f"{problem}; {hint}give {local_formats()}, or one of: {', '.join(DATASETS)}")


def files_below(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the files with such names in a folder and in its sub-folders, one level deep; or one file."""
    found = [folder] if folder.is_file() and name.fullmatch(folder.name) else []
    for place, folders, names in os.walk(folder, followlinks=True):
        found += [Path(place, each) for each in names if name.fullmatch(each)]
        if place != os.fspath(folder):
            folders.clear()
    return sorted(found)


def files_by_split(path: Path, name: re.Pattern[str]) -> Files:
    """Return a file as the training split, or files below a folder by the split in their path: that of the
    first name on it with a split's word, set off by `-`, `_` or `.`.
    """
    found: dict[SplitName, list[Path]] = {}
    unnamed: list[Path] = []
    for file in files_below(path, name):
        matches = map(SPLIT_WORD.match, file.relative_to(path).parts)
        split = next((SPLIT_ALIASES[each[1]] for each in matches if each), None)
        (found.setdefault(split, []) if split else unnamed).append(file)
    require_train(found or {"train": unnamed}, path)
    return found or {"train": unnamed}


def require_train(splits: Collection[SplitName], folder: Path) -> None:
    """Raise ValueError if none of the splits of a folder is train."""
    if "train" not in splits:
        raise ValueError(f"folder {folder} has no split train, only {', '.join(sorted(splits)) or 'others'}")


def source_of_files(
    path: Path,
    files: Iterable[Path],
    splits: Mapping[SplitName, SourceSplit],
    classes: Iterable[str],
    options: ReadOptions,
    outside: Iterable[Path] = (),
) -> Source:
    """Return the source of splits that were read from files below a path, and from others `outside` of it."""
    root = path if path.is_dir() else path.parent
    names = [each.relative_to(root).as_posix() for each in files]
    names += [os.path.relpath(each, root.resolve()) for each in outside]
    title = path.resolve().name if path.is_dir() else path.resolve().stem
    source = Source(title, splits, (), hash_names(root, names, options.index))
    return with_class_names(source, classes)


def joined(parts: Sequence[SourceSplit]) -> SourceSplit:
    """Return the split of these parts, one after the other; with labels if all have them."""
    ends = list(accumulate(part.num_images for part in parts))
    starts = [0, *ends]

    def read_range(start: int, stop: int) -> Iterator[RawImage]:
        for first, part in zip(starts, parts, strict=False):
            begin, end = max(start - first, 0), min(stop - first, part.num_images)
            if begin < end:
                yield from part.images(begin, end)

    def image_name(i: int) -> str:
        number = bisect_right(ends, i)
        return parts[number].image_name(i - starts[number])

    labels = [part.labels for part in parts if part.labels is not None]
    found = np.concatenate(labels) if len(labels) == len(parts) else None
    return SourceSplit(ends[-1] if ends else 0, read_range, image_name, found)


def with_class_names(source: Source, names: Iterable[str] = ()) -> Source:
    """Return the source with these class names, or, without any, with its labels as names.

    Labels that are all missing (-1) are none. Unnamed labels above `MAX_INDEX` are identifiers, which become
    the classes 0, 1, ... in ascending order. Raises ValueError if only some labels are missing.
    """
    splits = {
        name: replace(split, labels=_labels(split, f"{name} images of dataset '{source.name}'"))
        for name, split in source.splits.items()
    }
    labeled = {name: split.labels for name, split in splits.items() if split.labels is not None}
    if not labeled:
        return replace(source, splits=splits)
    named, largest = tuple(map(str, names)), max(int(labels.max()) for labels in labeled.values())
    if named and largest >= len(named):
        raise ValueError(f"label {largest} has no class name; there are {len(named)} class names")
    if named or largest <= MAX_INDEX:
        return replace(source, splits=splits, classes=named or tuple(map(str, range(largest + 1))))
    ids = np.unique(np.concatenate([np.unique(labels) for labels in labeled.values()]))
    if len(ids) > MAX_CLASSES:
        raise ValueError(f"the labels are of {len(ids):,} different classes; allowed: up to {MAX_CLASSES:,}")
    for name, labels in labeled.items():
        splits[name] = replace(splits[name], labels=np.searchsorted(ids, labels))
    numbers = f"{len(ids):,} different numbers from {ids[0]} to {largest}"
    note = f"labels of dataset '{source.name}' are {numbers}; each is a class of that name"
    classes = tuple(map(str, ids.tolist()))
    return replace(source, splits=splits, classes=classes, label_note=note if len(ids) <= largest else "")


def _labels(split: SourceSplit, images: str) -> NDArray[np.int64] | None:
    if split.labels is None or (split.labels == -1).all():
        return None
    labels = split.labels.astype(np.int64)
    if labels.min() < 0:
        missing = f"{(labels < 0).sum()} of {len(labels)} {images}"
        raise ValueError(f"there is no label from 0 on for {missing}; label all of them, or none (-1)")
    return labels


def remember_source(source: str) -> None:
    """Add a path to the list of those that this user has read, if it can be written."""
    if not is_known_source(source):
        with suppress(OSError, RuntimeError):  # there is no home folder
            _known_sources().parent.mkdir(parents=True, exist_ok=True)
            with _known_sources().open("a") as file:
                file.write(f"{_path_hash(source)}\n")


def require_known_source(source: str) -> None:
    """Raise ValueError if the source of a run is an existing path that this user has not read before.

    So no run folder of another has local data read unasked.
    """
    if Path(source).expanduser().exists() and not is_known_source(source):
        option = command_line("--data", source).removeprefix("isopix ")
        raise ValueError(
            f"this run was trained on {source}, which you have not used before; to read it, give {option}"
        )


def is_known_source(source: str) -> bool:
    """Return whether a source is the name of a dataset, or a path that this user has read."""
    with suppress(OSError, ValueError, RuntimeError):
        return source in DATASETS or _path_hash(source) in _known_sources().read_text().split()
    return False


def _path_hash(source: str) -> str:
    return hash_bytes(os.fsencode(Path(source).expanduser().resolve()))


def _known_sources() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "isopix" / "known-sources"
