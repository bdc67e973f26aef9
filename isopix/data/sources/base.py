"""Source: the splits, labels and class names of a dataset, before any image is decoded."""

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isopix.core import choices
from isopix.core.text import command_line, did_you_mean, normal_form, require_utf8, similar_paths
from isopix.data.augment import AugmentationSpec
from isopix.data.dataset import DataConfig
from isopix.data.decode import RawImage
from isopix.data.formats import FORMATS, local_formats
from isopix.data.sources.files import entries_below, hash_below, unread_files
from isopix.data.sources.labels import class_keys, label_of
from isopix.data.sources.split_names import by_split
from isopix.data.splits import NO_LABEL
from isopix.storage.provenance import hash_bytes

SplitName = choices.SplitName

Files = Mapping[SplitName, Sequence[Path]]
SPLIT_NAMES: tuple[SplitName, ...] = ("train", "validation", "test")

DEFAULT_HOLDOUT = 0.1  # iGPT section 3.1: CIFAR-10, CIFAR-100, STL-10; ImageNet holds out 0.04


@dataclass(frozen=True)
class SourceSplit:
    """One split of a source, or a part of one, in a fixed order."""

    num_images: int
    read_range: Callable[[int, int], Iterator[RawImage]]  # what `images` yields for a start and a stop
    image_name: Callable[[int], str]  # of image i, for messages
    labels: NDArray[Any] | None = None  # class indices; before `with_class_names` any values
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
    has_columns: bool = False  # of labels and images, which settings name
    notes: tuple[str, ...] = ()  # what was not read, and how labels were mapped to class indices


class Reader(NamedTuple):
    """What reads the files of a format: those that `claims` is true of."""

    claims: Callable[[Path], bool]
    read: Callable[[Path, DataConfig], Source]


class NamedDataset(NamedTuple):
    """A dataset known by name, and how it is augmented in fine-tuning if the literature agrees on it."""

    read: Callable[[DataConfig], Source]
    augment: AugmentationSpec | None = None


READERS: dict[str, Reader] = {}  # by their names in `FORMATS`
DATASETS: dict[str, NamedDataset] = {}


def find_reader(config: DataConfig) -> Callable[[], Source]:
    """Return what reads the source with that name, or else at that path; nothing is read before."""
    source, of_folder = config.source, config.exclude or config.labels_file
    if source in DATASETS and not of_folder:
        return partial(DATASETS[source].read, config)
    path = Path(source).expanduser()
    problem, hint = f"no file or folder '{source}' exists, and no dataset has that name", ""
    if (path / "recipe.json").is_file():
        problem = f"{path} is a run folder"
    elif source and path.exists():
        problem = f"{path} is not a dataset"
        for name in reversed(FORMATS):
            if READERS[name].claims(path) and (name == "folder" or not of_folder):
                return partial(READERS[name].read, path, config)
    else:
        hint = did_you_mean(source, [*DATASETS, *similar_paths(path)])
    if of_folder:
        raise ValueError(f"'{source}' is not a folder of images, as data.exclude and data.labels_file need")
    raise ValueError(f"{problem}; {hint}give {local_formats()}, or one of: {', '.join(DATASETS)}")


def files_below(path: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the files with such names at any depth of a folder; or one file."""
    if path.is_file():
        return [path] if name.fullmatch(path.name) else []
    entries = entries_below(path) if path.is_dir() else ()
    return sorted(path / each for each in entries if name.fullmatch(each.rpartition("/")[2]))


def files_by_split(path: Path, name: re.Pattern[str], config: DataConfig) -> Files:
    """Return a file as the training split, or files below a folder by the split in their paths."""
    if path.is_file():
        return {"train": [path]}
    names = [each.relative_to(path).as_posix() for each in files_below(path, name)]
    found = by_split(names, path, config.splits)
    return {split: [path / each for each in own] for split, own in found.items()}


def source_of_files(
    path: Path,
    files: Iterable[Path],
    splits: Mapping[SplitName, SourceSplit],
    classes: Iterable[str],
    config: DataConfig,
    outside: Iterable[Path] = (),
) -> Source:
    """Return the source of splits that were read from files below a path, and from others `outside` of it."""
    root = path if path.is_dir() else path.parent
    names = [each.relative_to(root).as_posix() for each in files]
    notes = unread_files(path, entries_below(path), names) if path.is_dir() else ()
    names += [os.path.relpath(each, root.resolve()) for each in outside]
    title = path.resolve().name if path.is_dir() else path.resolve().stem
    content_hash = hash_below(root, names)
    return with_class_names(Source(title, splits, (), content_hash, has_columns=True, notes=notes), classes)


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
    """Return the source with class indices as labels: of these class names, or else of the labels' own.

    Labels that are names are sorted. Unnamed numbers above `MAX_INDEX` are identifiers, which become the
    classes 0, 1, ... in ascending order. Images whose label is missing or cannot be a class (`label_of` gives
    None) have NO_LABEL; notes count them, and tell which labels are not read.
    """
    found, notes = dict[SplitName, list[Any]](), list[str]()
    for name, split in source.splits.items():
        labels = [] if split.labels is None else list(map(label_of, split.labels.tolist()))
        missing = labels.count(None)
        if missing < len(labels):
            found[name] = labels
            images = f"{missing:,} of {len(labels):,} {name} images of dataset '{source.name}'"
            notes += [f"{images} have no label"] if missing else []
    if any(isinstance(each, str) for each in chain(*found.values())):
        found = {name: [each if each is None else str(each) for each in own] for name, own in found.items()}
    classes = tuple(normal_form(str(each)) for each in names)
    try:
        keys = class_keys({*chain(*found.values())} - {None}, classes)
    except ValueError as error:
        found, keys = {}, ()
        notes.append(f"labels of dataset '{source.name}' are not read: {error}")
    if keys and isinstance(keys[-1], int) and keys[-1] >= len(keys):
        numbers = f"{len(keys):,} different numbers from {keys[0]} to {keys[-1]}"
        notes.append(f"labels of dataset '{source.name}' are {numbers}; each is a class of that name")
    for each in (*classes, *map(str, keys)):
        require_utf8(f"a class of dataset '{source.name}'", each)
    index = {None: NO_LABEL} | {key: i for i, key in enumerate(keys)}
    indices = {name: np.array([index[each] for each in own], np.int64) for name, own in found.items()}
    return replace(
        source,
        splits={name: replace(split, labels=indices.get(name)) for name, split in source.splits.items()},
        classes=(classes or tuple(map(str, keys))) if found else (),
        notes=(*source.notes, *notes),
    )


def remember_source(source: str) -> None:
    """Add a path to the list of those that this user has read, if it can be written."""
    if not is_known_source(source):
        with suppress(OSError, RuntimeError):  # there is no home folder
            _known_sources().parent.mkdir(parents=True, exist_ok=True)
            with _known_sources().open("a") as file:
                file.write(f"{_path_hash(source)}\n")


def require_known_source(source: str) -> None:
    """Raise ValueError if the source of a run is gone, or a path that this user has not read before.

    So no run folder of another has local data read unasked.
    """
    require_present(source)
    if not is_known_source(source):
        option = command_line("--data", source).removeprefix("isopix ")
        unknown = f"this run was trained on {source}, which you have not used before"
        raise ValueError(f"{unknown}; to read it, give {option}")


def require_present(source: str) -> None:
    """Raise ValueError if the source of a run is neither the name of a dataset nor a path that exists."""
    if source not in DATASETS and not Path(source).expanduser().exists():
        raise ValueError(f"the images of this run are not at {source}; give --data PATH")


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
