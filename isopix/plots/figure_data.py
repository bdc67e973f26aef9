"""The numbers that a figure shows, as a table: a CSV file beside its picture."""

import csv
import io
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import FillBetweenPolyCollection, LineCollection, PathCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

DECORATION = "_decoration"  # the label of what has no number of its own, such as the line at zero
UNNAMED = re.compile(r"_(child\d+|nolegend_)?")  # labels that matplotlib gives by itself


Points = NDArray[np.floating]


class Point(NamedTuple):
    """A number of a figure: the panel and the series that it belongs to, and where it is drawn.

    `value` is that of a cell of an image, whose column and row `x` and `y` are then.
    """

    panel: str
    series: str
    x: float
    y: float
    value: float | None = None


def figure_csv(figure: Figure) -> str:
    """Return the points of lines, markers, error bars, bands, bars and images, with a header.

    A series has the name that its legend shows, or that its label has after an underscore; else a number.
    Those with the label `DECORATION` are left out.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Point._fields)
    for number, axes in enumerate(figure.axes, start=1):
        title = next(filter(None, (axes.get_title(place) for place in ("left", "center", "right"))), "")
        name = " ".join(title.split()) or (str(number) if len(figure.axes) > 1 else "")
        for point in _points(axes, name):
            numbers = ("" if each is None else f"{each:.10g}" for each in point[2:])
            writer.writerow([point.panel, point.series, *numbers])
    return text.getvalue()


def _points(axes: Axes, panel: str) -> Iterator[Point]:
    names = _bar_names(axes)
    for number, artist in enumerate(axes.get_children(), start=1):
        if artist.get_label() == DECORATION:
            continue
        series = names.get(artist) or _name(artist.get_label(), f"series {number}")
        for part, points in _drawn(artist, axes).items():
            for x, y in points[np.isfinite(points).all(1)]:
                yield Point(panel, series + part, float(x), float(y))
    for image in axes.images:
        values: Points = np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)
        if values.ndim == 2:  # one of colors has no numbers
            for (row, column), value in np.ndenumerate(values):
                yield Point(panel, _name(image.get_label(), "values"), column, row, float(value))


def _bar_names(axes: Axes) -> dict[Artist, str]:
    """Return the names of bars and error bars, which belong to a container that has the label."""
    names = {}
    for container in axes.containers:
        for each in container.get_children():
            names[each] = _name(container.get_label(), "")
    return names


def _drawn(artist: Artist, axes: Axes) -> dict[str, Points]:
    """Return the points [n 2] of a line, of markers, of the ends of error bars, or of a bar; of a band those
    of its borders, by what their series adds to the band's name.
    """
    if isinstance(artist, Line2D):
        return {"": _line_points(artist, axes)}
    if isinstance(artist, PathCollection):
        return {"": np.ma.filled(np.ma.asarray(artist.get_offsets(), dtype=float), np.nan)}
    if isinstance(artist, LineCollection):
        return {"": np.concatenate([np.empty((0, 2)), *map(np.asarray, artist.get_segments())])}
    if isinstance(artist, PolyCollection):
        return _borders(artist)
    if isinstance(artist, Rectangle) and artist is not axes.patch:
        top = artist.get_y() + artist.get_height()
        return {"": np.array([[artist.get_x() + artist.get_width() / 2, top]])}
    return {}


def _borders(band: PolyCollection) -> dict[str, Points]:
    """Return the lower and the upper border of a band; of one between values of x, the left and the right."""
    upright = isinstance(band, FillBetweenPolyCollection) and band.t_direction == "y"  # type: ignore[attr-defined]
    along, names = (1, (", left", ", right")) if upright else (0, (", lower", ", upper"))
    points = np.concatenate([np.empty((0, 2)), *(np.asarray(path.vertices) for path in band.get_paths())])
    places = np.unique(points[:, along])
    sides = [points[points[:, along] == place] for place in places]
    ends = [(each[each[:, 1 - along].argmin()], each[each[:, 1 - along].argmax()]) for each in sides]
    return dict(zip(names, np.array(ends).reshape(-1, 2, 2).swapaxes(0, 1), strict=True))


def _line_points(line: Line2D, axes: Axes) -> Points:
    """Return the points [n 2] of a line; one across the whole panel has the limits of the axis."""
    x, y = (np.asarray(each, dtype=float) for each in line.get_data())
    in_data = line.get_transform().contains_branch_seperately(axes.transData)
    if not in_data[0]:
        x = np.array(axes.get_xlim())
    if not in_data[1]:
        y = np.array(axes.get_ylim())
    return np.column_stack([x, y])


def _name(label: object, default: str) -> str:
    label = str(label or "_")
    return default if UNNAMED.fullmatch(label) else label.removeprefix("_")
