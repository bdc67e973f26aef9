"""Survey of a source: sizes, formats, classes, duplicates and unreadable images, before any training."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image

from isopix.core.choices import EXAMINED_IMAGES
from isopix.core.progress import CountDone, track
from isopix.core.text import printable
from isopix.data.copies import DuplicateGroup, exact_duplicates, near_duplicates
from isopix.data.dataset import DataConfig, open_source
from isopix.data.decode import (
    RawImage,
    content_number,
    decode_image,
    failure_reason,
    image_header,
    read_content,
)
from isopix.data.known_sources import remember_source
from isopix.data.preprocess import map_images
from isopix.data.results import (
    BadFile,
    DataResult,
    Duplicates,
    Examined,
    FormatCount,
    SizeCount,
    Sizes,
    SplitCounts,
)
from isopix.data.sources.base import SPLIT_NAMES, Source, SplitName
from isopix.storage.cache import default_cache

NUM_RANGES = 100  # into which the images of a larger split are divided
MAX_CLASSES, PER_CLASS, UNLABELED = 40, 10, 60  # of the pictures that are kept
PICTURE_SIDE = 96  # pixels
DECODED = 128  # pixels of the shorter side of a JPEG that is decoded at a fraction, at least
THUMBNAIL = 8  # pixels of a side: also of small images, and too coarse for the marks of compression
LISTED = 10  # sizes, groups of duplicates and unreadable images in the record; files have all of them


class ImageFacts(NamedTuple):
    """What an image is: sides of the upright image, Pillow's names, a hash of its content, small versions."""

    width: int
    height: int
    format: str
    mode: str
    content_hash: int  # that of its copies too, as `content_number`
    thumbnail: UInt8[np.ndarray, "8 8 3"]  # the whole image, averaged
    picture: Image.Image | None  # at most `side` pixels wide and high


@dataclass
class Survey:
    """What was found in the images of a source that were examined, over all splits.

    `sizes` counts images by width and height, `formats` by format and mode. The groups of `duplicates` index
    the images that could be read, which `image(i)` names. `pictures` are small training images by class name,
    or under "" without labels.
    """

    source: Source
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    formats: Counter[tuple[str, str]] = field(default_factory=Counter)
    hashes: list[int] = field(default_factory=list)
    thumbnails: list[bytes] = field(default_factory=list)
    positions: dict[SplitName, list[int]] = field(
        default_factory=dict
    )  # in the split, of those that were read
    bad_files: dict[SplitName, list[BadFile]] = field(default_factory=dict)
    pictures: dict[str, list[Image.Image]] = field(default_factory=dict)
    duplicates: tuple[DuplicateGroup, ...] = ()

    def add(self, split: SplitName, position: int, facts: ImageFacts | str) -> None:
        """Add an image, or the reason why it cannot be read."""
        if isinstance(facts, str):
            name = printable(self.source.splits[split].image_name(position))
            self.bad_files[split].append(BadFile(name, facts))
            return
        self.sizes[facts.width, facts.height] += 1
        self.formats[facts.format, facts.mode] += 1
        self.hashes.append(facts.content_hash)
        self.thumbnails.append(facts.thumbnail.tobytes())
        self.positions[split].append(position)

    def find_duplicates(self) -> None:
        """Compare all images."""
        hashes = np.array(self.hashes, np.int64)
        pixels = np.frombuffer(b"".join(self.thumbnails), np.uint8).reshape(-1, THUMBNAIL, THUMBNAIL, 3)
        self.duplicates = (*exact_duplicates(hashes), *near_duplicates(hashes, pixels))

    def image(self, index: int) -> Examined:
        """Return the split, name and class of an image that could be read, by its index over all splits."""
        for name, positions in self.positions.items():
            if index < len(positions):
                split, i = self.source.splits[name], positions[index]
                label = None if split.labels is None else self.source.classes[split.labels[i]]
                return Examined(name, printable(split.image_name(i)), label)
            index -= len(positions)
        raise IndexError(index)


def survey_source(
    source: str, *, size: tuple[int, int] = (32, 32), limit: int = EXAMINED_IMAGES
) -> DataResult:
    """Examine up to `limit` images of each split of the source of that name or path.

    Of a larger split, ranges of neighboring images at even distances are taken. `size` is that of images that
    have none: palette codes, and the canvas of translated-digits. Memory grows by about 3 kB for each image.
    Raises what the readers raise.
    """
    opened = open_source(DataConfig(source=source, rows=size[0], cols=size[1]), default_cache())()
    remember_source(source)
    survey = Survey(opened)
    room = _picture_room(opened)
    total = sum(min(split.num_images, limit) for split in opened.splits.values())
    with track("examining images", total) as count:
        for name in (each for each in SPLIT_NAMES if each in opened.splits):
            _examine_split(survey, name, limit, room if name == "train" else {}, count)
    survey.find_duplicates()
    return DataResult(source=source, limit=limit, **_summary(survey), survey=survey)


def spread_ranges(count: int, limit: int) -> list[tuple[int, int]]:
    """Return where the ranges of up to `limit` of `count` images start and stop; one range if all are taken.

    Neighboring images are read together, since many formats are read in blocks.
    """
    if count <= limit:
        return [(0, count)]
    number = min(NUM_RANGES, limit)
    size = limit // number
    return [(i * count // number, i * count // number + size) for i in range(number)]


def _picture_room(source: Source) -> dict[int, int]:
    """Return how many pictures to keep of each class; of evenly many classes if there are more."""
    labels = source.splits["train"].labels
    if labels is None:
        return {-1: UNLABELED}
    present = np.unique(labels).tolist()
    return dict.fromkeys(present[:: -(-len(present) // MAX_CLASSES)], PER_CLASS)


def _examine_split(
    survey: Survey, name: SplitName, limit: int, room: dict[int, int], count: CountDone
) -> None:
    """Examine the images of a split; keep pictures of classes as long as there is room for them."""
    split = survey.source.splits[name]
    ranges = spread_ranges(split.num_images, limit)
    positions = [i for start, stop in ranges for i in range(start, stop)]
    survey.positions[name], survey.bad_files[name] = [], []
    labels = [-1 if split.labels is None else int(split.labels[i]) for i in positions]
    before = len(survey.hashes) + sum(map(len, survey.bad_files.values()))

    def jobs() -> Iterator[tuple[RawImage, bool]]:
        images = (raw for start, stop in ranges for raw in split.images(start, stop))
        for raw, label in zip(images, labels, strict=True):
            room[label] = room.get(label, 0) - 1
            yield raw, room[label] >= 0

    examined = map_images(jobs(), _examine, lambda job: job[0], kept_bytes=3 * PICTURE_SIDE**2)
    for done, (position, label, facts) in enumerate(zip(positions, labels, examined, strict=True), start=1):
        survey.add(name, position, facts)
        if isinstance(facts, ImageFacts) and facts.picture is not None:
            class_name = "" if label < 0 else survey.source.classes[label]
            survey.pictures.setdefault(class_name, []).append(facts.picture)
        count(before + done)


def _examine(job: tuple[RawImage, bool]) -> ImageFacts | str:
    """Return the facts about an image, with its picture if it is to be kept, or why it cannot be read."""
    raw, is_kept = job
    try:
        content = read_content(raw)
        header = image_header(content)
        rgb = decode_image(content, 2 * PICTURE_SIDE if is_kept else DECODED)
        thumbnail = np.asarray(rgb.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX))
        return ImageFacts(
            *header, content_number(content, rgb), thumbnail, _picture(rgb) if is_kept else None
        )
    except Exception as error:  # damaged files raise OSError, ValueError, SyntaxError, struct.error and more
        return failure_reason(error)


def _picture(rgb: Image.Image) -> Image.Image:
    """Return an image reduced to fit into a square; small ones are enlarged by an integer, pixel by pixel."""
    larger = max(rgb.size)
    if larger <= PICTURE_SIDE:
        scale = PICTURE_SIDE // larger
        return rgb.resize((scale * rgb.width, scale * rgb.height), Image.Resampling.NEAREST)
    width, height = (max(1, round(length * PICTURE_SIDE / larger)) for length in rgb.size)
    return rgb.resize((width, height), Image.Resampling.BOX)


def _summary(survey: Survey) -> dict[str, Any]:
    """Return the fields of the result."""
    sizes = survey.sizes.most_common()
    widths, heights = (
        _range(np.repeat([size[axis] for size, _ in sizes], [n for _, n in sizes])) for axis in (0, 1)
    )
    bad = [each for found in survey.bad_files.values() for each in found]
    return {
        "data": printable(survey.source.name),
        "num_classes": len(survey.source.classes),
        "splits": {name: _counts(survey, name) for name in survey.positions},
        "sizes": Sizes(len(sizes), tuple(SizeCount(*size, n) for size, n in sizes[:LISTED]), widths, heights),
        "formats": tuple(FormatCount(*kind, n) for kind, n in survey.formats.most_common()),
        "duplicates": {kind: _duplicates(survey, kind) for kind in ("exact", "near")},
        "unreadable": tuple(bad[:LISTED]),
    }


def _range(values: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the least, the median and the largest value."""
    ordered = np.sort(values).tolist()
    return (ordered[0], ordered[len(ordered) // 2], ordered[-1]) if ordered else ()


def _counts(survey: Survey, name: SplitName) -> SplitCounts:
    split, unreadable, counts = survey.source.splits[name], len(survey.bad_files[name]), None
    if split.labels is not None:
        numbers = np.bincount(split.labels, minlength=len(survey.source.classes)).tolist()
        counts = dict(zip(survey.source.classes, numbers, strict=True))
    return SplitCounts(split.num_images, len(survey.positions[name]) + unreadable, unreadable, counts)


def _duplicates(survey: Survey, kind: str) -> Duplicates:
    """CountDone groups, images, images that are in an earlier split too, and groups of different labels."""
    groups = [list(map(survey.image, each.members)) for each in survey.duplicates if each.kind == kind]
    across: Counter[SplitName] = Counter()
    conflicting = 0
    for members in groups:
        splits = Counter(member.split for member in members)
        first = next(name for name in SPLIT_NAMES if name in splits)
        across.update({name: count for name, count in splits.items() if name != first})
        conflicting += len({member.class_name for member in members} - {None}) > 1
    return Duplicates(
        groups=len(groups),
        images=sum(map(len, groups)),
        in_earlier_split=dict(across),
        groups_with_different_labels=conflicting,
        first_groups=tuple(tuple(group[:LISTED]) for group in groups[:LISTED]),
    )
