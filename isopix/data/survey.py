"""Survey of a source: sizes, formats, classes, duplicates and unreadable images, before any training."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from PIL import Image

from isopix.core.choices import EXAMINED_IMAGES
from isopix.core.progress import CountDone, track
from isopix.core.text import printable
from isopix.data import decode, results
from isopix.data.copies import Groups, equal_groups
from isopix.data.dataset import DataConfig
from isopix.data.flags import SIDE, find_flags
from isopix.data.load import open_source
from isopix.data.preprocess import map_images
from isopix.data.sources.base import SPLIT_NAMES, Source, SourceSplit, SplitName, joined, remember_source
from isopix.data.splits import NO_LABEL, Split

NUM_RANGES = 100  # into which the images of a larger split are divided
MAX_CLASSES, PER_CLASS, WITHOUT_CLASSES = 40, 10, 60  # of the pictures that are kept
PICTURE_SIDE = 96  # pixels
LISTED = 10  # sizes, groups of duplicates, flagged and unreadable images in the record; files have all


class ImageFacts(NamedTuple):
    """What an image is: sides of the upright image, Pillow's names, a hash of its content, a small
    version, and its flags with what was measured.
    """

    width: int
    height: int
    format: str
    mode: str
    content_hash: int  # that of its copies too, as `content_number`
    picture: Image.Image | None  # at most PICTURE_SIDE wide and high
    flags: dict[str, float]


@dataclass
class Survey:
    """The examined images of a source: those read, which `duplicates` index, others, and small pictures."""

    source: Source
    config: DataConfig
    images: list[tuple[results.Examined, ImageFacts]] = field(default_factory=list)
    bad_files: list[results.BadFile] = field(default_factory=list)
    pictures: dict[str, list[Image.Image]] = field(default_factory=dict)
    duplicates: Groups = field(default_factory=list)

    @property
    def flagged(self) -> list[results.Flagged]:
        """The images with flags, those with most of them first."""
        found = [results.Flagged(image, facts.flags) for image, facts in self.images if facts.flags]
        return sorted(found, key=lambda each: -len(each.flags))

    @property
    def sizes(self) -> Counter[tuple[int, int]]:
        return Counter((facts.width, facts.height) for _, facts in self.images)


def survey_source(config: DataConfig, *, limit: int = EXAMINED_IMAGES) -> results.DataResult:
    """Examine up to `limit` images of each split of a source; of larger ones, ranges of neighbors."""
    opened = open_source(config)()
    remember_source(config.source)
    survey = Survey(opened, config)
    total = sum(min(split.num_images, limit) for split in opened.splits.values())
    with track("examining images", total) as count:
        names = [each for each in SPLIT_NAMES if each in opened.splits]
        splits = {name: _examine_split(survey, name, limit, count) for name in names}
    hashes = np.array([facts.content_hash for _, facts in survey.images], np.int64)
    survey.duplicates = equal_groups(hashes)
    return _result(survey, splits, limit)


def image_names(config: DataConfig, split: Split) -> list[str]:
    """Return the name of each image as its source has it: a file's path."""
    assert split.rows is not None, "a source has them"
    source = whole_source(config)
    if len(split) and int(split.rows.max()) >= source.num_images:
        raise ValueError(f"dataset '{config.source}' has changed: it has fewer images than it had")
    return [source.image_name(row) for row in split.rows.tolist()]


def whole_source(config: DataConfig) -> SourceSplit:
    """Return all images of a source, those of one split after the other, as `Split.rows` counts them."""
    return joined([*open_source(config)().splits.values()])


def spread_ranges(count: int, limit: int) -> list[tuple[int, int]]:
    """Return where the ranges of up to `limit` of `count` images start and stop."""
    if count <= limit:
        return [(0, count)]
    number = min(NUM_RANGES, limit)
    size = limit // number
    return [(i * count // number, i * count // number + size) for i in range(number)]


def _picture_room(source: Source) -> dict[str, int]:
    labels = source.splits["train"].labels
    if labels is None:
        return {"": WITHOUT_CLASSES}
    present = [source.classes[label] for label in np.unique(labels[labels != NO_LABEL])]
    shown = present[:: -(-len(present) // MAX_CLASSES)]
    return dict.fromkeys([*shown, *([""] if NO_LABEL in labels else [])], PER_CLASS)


def _examine_split(survey: Survey, name: SplitName, limit: int, count: CountDone) -> results.SplitCounts:
    split, classes = survey.source.splits[name], survey.source.classes
    ranges = spread_ranges(split.num_images, limit)
    positions = [i for start, stop in ranges for i in range(start, stop)]
    labels = np.full(split.num_images, NO_LABEL) if split.labels is None else split.labels
    names = ["" if labels[i] == NO_LABEL else classes[labels[i]] for i in positions]
    room = _picture_room(survey.source) if name == "train" else {}
    bad_before = len(survey.bad_files)

    def jobs() -> Iterator[tuple[decode.RawImage, bool]]:
        images = (raw for start, stop in ranges for raw in split.images(start, stop))
        for raw, class_name in zip(images, names, strict=True):
            room[class_name] = room.get(class_name, 0) - 1
            yield raw, room[class_name] >= 0

    examine = partial(examine_image, config=survey.config)
    examined = map_images(jobs(), examine, lambda job: job[0], kept_bytes=3 * PICTURE_SIDE**2)
    for position, class_name, facts in zip(positions, names, examined, strict=True):
        image_name = printable(split.image_name(position))
        if isinstance(facts, str):
            survey.bad_files.append(results.BadFile(image_name, facts))
        else:
            survey.images.append((results.Examined(name, image_name, class_name or None), facts))
            if facts.picture is not None:
                survey.pictures.setdefault(class_name, []).append(facts.picture)
        count(len(survey.images) + len(survey.bad_files))
    per_class = None
    if split.labels is not None:
        numbers = np.bincount(labels[labels != NO_LABEL], minlength=len(classes)).tolist()
        per_class = dict(zip(classes, numbers, strict=True))
    unreadable = len(survey.bad_files) - bad_before
    return results.SplitCounts(split.num_images, len(positions), unreadable, per_class)


def examine_image(job: tuple[decode.RawImage, bool], config: DataConfig) -> ImageFacts | str:
    """Return what an image is, with a picture if the job asks for one; or why it cannot be read."""
    raw, is_kept = job
    min_side = 2 * PICTURE_SIDE if is_kept else SIDE
    try:
        content = decode.read_content(raw)
        header = decode.image_header(content)
        rgb = decode.decode_image(content, min_side, max_pixels=config.max_pixels, white=config.white)
        number, picture = decode.content_number(content, rgb), _picture(rgb) if is_kept else None
        # Arrays are all of one size, which the sizes say.
        smallest = (0, 0) if isinstance(content, np.ndarray) else (config.cols, config.rows)
        flags = find_flags(rgb, header[:2], smallest)
        return ImageFacts(*header, number, picture, flags)
    except Exception as error:  # damaged files raise OSError, ValueError, SyntaxError, struct.error and more
        return decode.failure_reason(error)


def _picture(rgb: Image.Image) -> Image.Image:
    larger = max(rgb.size)
    if larger <= PICTURE_SIDE:
        scale = PICTURE_SIDE // larger
        return rgb.resize((scale * rgb.width, scale * rgb.height), Image.Resampling.NEAREST)
    width, height = (max(1, round(length * PICTURE_SIDE / larger)) for length in rgb.size)
    return rgb.resize((width, height), Image.Resampling.BOX)


def _result(survey: Survey, splits: dict[SplitName, results.SplitCounts], limit: int) -> results.DataResult:
    sizes, facts = survey.sizes, [facts for _, facts in survey.images]
    return results.DataResult(
        source=survey.config.source,
        limit=limit,
        data=printable(survey.source.name),
        num_classes=len(survey.source.classes),
        splits=splits,
        sizes=results.Sizes(
            different=len(sizes),
            most_common={f"{w}×{h}": count for (w, h), count in sizes.most_common(LISTED)},
            width=_range(each.width for each in facts),
            height=_range(each.height for each in facts),
        ),
        formats=dict(Counter(f"{each.format} {each.mode}" for each in facts).most_common()),
        duplicates=_duplicates(survey),
        flags=dict(Counter(flag for each in facts for flag in each.flags).most_common()),
        flagged=tuple(survey.flagged[:LISTED]),
        unreadable=tuple(survey.bad_files[:LISTED]),
        warnings=survey.source.notes,
        survey=survey,
    )


def _range(values: Iterable[int]) -> tuple[int, ...]:
    """Return the least, the median and the largest value."""
    ordered = sorted(values)
    return (ordered[0], ordered[len(ordered) // 2], ordered[-1]) if ordered else ()


def _duplicates(survey: Survey) -> results.Duplicates:
    groups = [[survey.images[i][0] for i in each] for each in survey.duplicates]
    across: Counter[SplitName] = Counter()
    conflicting = 0
    for members in groups:
        splits = Counter(member.split for member in members)
        first = next(name for name in SPLIT_NAMES if name in splits)
        across.update({name: count for name, count in splits.items() if name != first})
        conflicting += len({member.class_name for member in members} - {None}) > 1
    return results.Duplicates(
        groups=len(groups),
        images=sum(map(len, groups)),
        in_earlier_split=dict(across),
        groups_with_different_labels=conflicting,
        first_groups=tuple(tuple(group[:LISTED]) for group in groups[:LISTED]),
    )
