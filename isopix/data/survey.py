"""Survey of a source: sizes, formats, classes, duplicates and unreadable images, before any training."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from isopix.core.choices import EXAMINED_IMAGES
from isopix.core.progress import Count, track
from isopix.core.text import printable
from isopix.data.cache import BadFile
from isopix.data.dataset import DataConfig, open_source
from isopix.data.duplicates import DuplicateGroup, exact_duplicates, near_duplicates
from isopix.data.image_facts import THUMBNAIL, ImageFacts, ImageJob, examine_image
from isopix.data.known_sources import remember_source
from isopix.data.sources.base import SPLIT_NAMES, Source, SourceSplit, SplitName
from isopix.data.threads import map_images
from isopix.storage.cache_folder import default_cache

NUM_RANGES = 100  # into which the images of a larger split are divided
MAX_CLASSES, PER_CLASS, UNLABELED = 40, 10, 60  # of the pictures that are kept
PICTURE_SIDE = 96  # pixels
KEPT_BYTES = 3 * PICTURE_SIDE**2


@dataclass(frozen=True)
class SplitSurvey:
    """The images of a split, how many were examined, and how many there are of each class (of all images;
    None without labels).
    """

    num_images: int
    num_examined: int
    num_unreadable: int
    class_counts: Mapping[str, int] | None


class Examined(NamedTuple):
    """An image that was examined: its split, its name, and its class if it has one."""

    split: SplitName
    name: str
    class_name: str | None


@dataclass(frozen=True)
class Survey:
    """What was found in the images of a source that were examined.

    `sizes` counts images by width and height, `formats` by format and mode. The groups of `duplicates` index
    the images that could be read, which `image(i)` names. `pictures` are small images by class name, or under
    "" without labels.
    """

    source: Source
    splits: Mapping[SplitName, SplitSurvey]
    sizes: Mapping[tuple[int, int], int]
    formats: Mapping[tuple[str, str], int]
    duplicates: tuple[DuplicateGroup, ...]
    bad_files: tuple[BadFile, ...]
    pictures: Mapping[str, tuple[Image.Image, ...]]
    positions: Mapping[SplitName, NDArray[np.int64]]  # in the split, of the images that could be read

    def image(self, index: int) -> Examined:
        """Return the split, name and class of an image that could be read, by its index over all splits."""
        for name, positions in self.positions.items():
            if index < len(positions):
                split, i = self.source.splits[name], int(positions[index])
                label = None if split.labels is None else self.source.classes[split.labels[i]]
                return Examined(name, printable(split.image_name(i)), label)
            index -= len(positions)
        raise IndexError(index)


def survey_source(
    source: str, *, size: tuple[int, int] = (32, 32), limit: int = EXAMINED_IMAGES, cache: Path | None = None
) -> Survey:
    """Examine up to `limit` images of each split of the source of that name or path.

    Of a larger split, ranges of neighboring images at even distances are taken. `size` is that of images that
    have none: palette codes, and the canvas of translated-digits. Memory grows by about 3 kB for
    each image. Raises what the readers raise.
    """
    opened = open_source(DataConfig(source=source, rows=size[0], cols=size[1]), cache or default_cache())()
    opened = replace(
        opened, splits={name: opened.splits[name] for name in SPLIT_NAMES if name in opened.splits}
    )
    remember_source(source)
    found, pictures = _Found(), _Pictures(opened)
    total = sum(min(split.num_images, limit) for split in opened.splits.values())
    with track("examining images", total) as count:
        for name, split in opened.splits.items():
            _examine_split(name, split, limit, found, pictures, count)
    hashes, thumbnails = found.arrays()
    return Survey(
        source=opened,
        splits={name: _split_survey(opened, name, found) for name in opened.splits},
        sizes=dict(found.sizes.most_common()),
        formats=dict(found.formats.most_common()),
        duplicates=(*exact_duplicates(hashes), *near_duplicates(hashes, thumbnails)),
        bad_files=tuple(found.bad_files),
        pictures=pictures.by_class(),
        positions={name: np.array(each, np.int64) for name, each in found.positions.items()},
    )


def spread_ranges(count: int, limit: int) -> list[tuple[int, int]]:
    """Return where the ranges of up to `limit` of `count` images start and stop; one range if all are taken.

    Neighboring images are read together, since many formats are read in blocks.
    """
    if count <= limit:
        return [(0, count)]
    number = min(NUM_RANGES, limit)
    size = limit // number
    return [(i * count // number, i * count // number + size) for i in range(number)]


class _Found:
    """What was found so far, over all splits."""

    def __init__(self) -> None:
        self.sizes: Counter[tuple[int, int]] = Counter()
        self.formats: Counter[tuple[str, str]] = Counter()
        self.hashes: list[int] = []
        self.thumbnails: list[bytes] = []
        self.bad_files: list[BadFile] = []
        self.positions: dict[SplitName, list[int]] = {}
        self.num_bad: Counter[SplitName] = Counter()

    def add(self, split: SplitName, position: int, facts: ImageFacts) -> None:
        self.sizes[facts.width, facts.height] += 1
        self.formats[facts.format, facts.mode] += 1
        self.hashes.append(facts.content_hash)
        self.thumbnails.append(facts.thumbnail.tobytes())
        self.positions[split].append(position)

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        pixels = np.frombuffer(b"".join(self.thumbnails), np.uint8)
        return np.array(self.hashes, np.int64), pixels.reshape(-1, THUMBNAIL, THUMBNAIL, 3)


class _Pictures:
    """The first pictures of each class of the training images; of evenly many classes if there are more."""

    def __init__(self, source: Source):
        labels, classes = source.splits["train"].labels, source.classes
        present = [] if labels is None else np.unique(labels).tolist()
        step = -(-len(present) // MAX_CLASSES)
        self.room = dict.fromkeys(present[:: max(1, step)], PER_CLASS) if present else {-1: UNLABELED}
        self.labels, self.names = labels, {label: classes[label] if label >= 0 else "" for label in self.room}
        self.found: dict[int, list[Image.Image]] = {label: [] for label in self.room}

    def side(self, name: SplitName, position: int) -> int | None:
        """Return the sides of the picture to keep of an image; None for none."""
        label = self._label(position)
        if name != "train" or self.room.get(label, 0) == 0:
            return None
        self.room[label] -= 1
        return PICTURE_SIDE

    def add(self, position: int, picture: Image.Image) -> None:
        self.found[self._label(position)].append(picture)

    def by_class(self) -> dict[str, tuple[Image.Image, ...]]:
        return {self.names[label]: tuple(pictures) for label, pictures in self.found.items() if pictures}

    def _label(self, position: int) -> int:
        return -1 if self.labels is None else int(self.labels[position])


def _examine_split(
    name: SplitName, split: SourceSplit, limit: int, found: _Found, pictures: _Pictures, count: Count
) -> None:
    ranges = spread_ranges(split.num_images, limit)
    positions = [i for start, stop in ranges for i in range(start, stop)]
    before = sum(map(len, found.positions.values())) + len(found.bad_files)
    found.positions[name] = []

    def jobs() -> Iterator[ImageJob]:
        images = (raw for start, stop in ranges for raw in split.images(start, stop))
        for position, raw in zip(positions, images, strict=True):
            yield ImageJob(raw, pictures.side(name, position))

    examined = map_images(jobs(), examine_image, lambda job: job.raw, kept_bytes=KEPT_BYTES)
    for done, (position, facts) in enumerate(zip(positions, examined, strict=True), start=1):
        if isinstance(facts, str):
            found.bad_files.append(BadFile(printable(split.image_name(position)), facts))
            found.num_bad[name] += 1
        else:
            found.add(name, position, facts)
            if facts.picture is not None:
                pictures.add(position, facts.picture)
        count(before + done)


def _split_survey(source: Source, name: SplitName, found: _Found) -> SplitSurvey:
    split, counts = source.splits[name], None
    if split.labels is not None:
        numbers = np.bincount(split.labels, minlength=len(source.classes)).tolist()
        counts = dict(zip(source.classes, numbers, strict=True))
    unreadable = found.num_bad[name]
    return SplitSurvey(split.num_images, len(found.positions[name]) + unreadable, unreadable, counts)
