"""The data of a run: some training images, and the number of images of each class."""

from collections.abc import Sequence

from PIL import Image

from isopix.plots.images import Group, enlarge, fit_scale, image_grid, png_bytes, sample_grid
from isopix.reporting.gallery import image_tag
from isopix.reporting.run_record import DataSample, RunRecord
from isopix.reporting.section import NUMBER, Chart, Panel, Row, Section, Table

MAX_COLUMNS = 12  # of images; with more classes, images are not grouped by class
FOLDED = 20  # classes, above which the table is shown on request
SPLITS = ("training", "validation", "test")


def data_section(run: RunRecord) -> Section | None:
    """Return training images and the number of images of each class; None for a run without them."""
    data = run.data
    if data is None or not len(data.images):
        return None
    each_class = 1 < len(data.classes) <= MAX_COLUMNS and -1 not in data.labels
    picture = _by_class(data) if each_class else sample_grid(data.images)
    source = "" if run.recipe is None else f" of {run.recipe.data.source.rpartition('/')[2]}"
    order = "by class, " if each_class else ""
    caption = (
        f"{len(data.images)} training images{source}, {order}at the resolution of the model, before"
        " augmentation and codec."
    )
    tag = image_tag(png_bytes(picture), f"Training images. {caption}")
    tables = [_counts(data)] if len(data.classes) > 1 else []
    return Section("Data", [Panel([Chart(tag, caption, "pixels")], tables)])


def _by_class(data: DataSample) -> Image.Image:
    """Return the images of each class below its name, in as many columns as fit."""
    present = sorted(set(data.labels))
    largest = max(map(data.labels.count, present))
    columns = min(MAX_COLUMNS // len(present), largest)
    scale, groups = fit_scale(data.images, columns * len(present)), []
    for label in present:
        tiles = enlarge(data.images[_places(data.labels, label)], scale)
        groups.append(Group(data.classes[label], [tiles[i::columns] for i in range(columns)]))
    return image_grid(groups, blocks=1)


def _places(labels: Sequence[int], label: int) -> list[int]:
    return [i for i, each in enumerate(labels) if each == label]


def _counts(data: DataSample) -> Table:
    rows = [
        Row([name, *(f"{count:,}" for count in counts)])
        for name, counts in zip(data.classes, data.counts, strict=True)
    ]
    rows.append(Row(["all", *(f"{sum(column):,}" for column in zip(*data.counts, strict=True))], "run"))
    folded = f"Images of {len(data.classes):,} classes" if len(data.classes) > FOLDED else ""
    return Table([("class", ""), *((f"{split} images", NUMBER) for split in SPLITS)], rows, folded=folded)
