"""Marks of the figures of a study: what colors, markers, sizes and dashes mean, their keys, and baselines.

Color: block, or encoding in panels of one block; marker: encoding; size of a point and
dash of a line: depth; hollow: untrained. They mean the same in all figures.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isopix.plots import style
from isopix.plots.figure_data import DECORATION

BLOCK_COLORS = {
    "conv": style.COLORS[0],
    "mixer": style.COLORS[1],
    "transformer-1": style.COLORS[2],
    "transformer-4": style.COLORS[3],
    "transformer-1-nopos": style.COLORS[5],
}
ENCODING_COLORS = {"pix2vec": style.TEXT_COLOR, "fourier": "#E07B00", "continuous": "#2FA7BC"}
MARKERS = {"pix2vec": "o", "fourier": "^", "continuous": "s"}
DASHES: Mapping[int, Any] = {1: (0, (1, 1)), 3: (0, (4, 1.3)), 6: "-", 12: (0, (6, 1.2, 1, 1.2))}
Place = Literal["outside lower left", "outside lower center", "outside lower right"]
LINE_WIDTH = 0.9  # points, of a baseline
LINE_SPACING = 1.15  # of labels of baselines, in their size
LEGEND_PLACES: Mapping[int, tuple[Place, ...]] = {  # by number of legends
    2: ("outside lower left", "outside lower right"),
    3: ("outside lower left", "outside lower center", "outside lower right"),
}
DISPLAY_NAMES = {
    "conv": "convolution",
    "transformer-1": "transformer, 1 head",
    "transformer-4": "transformer, 4 heads",
    "transformer-1-nopos": "transformer, no positions",
    "fourier": "Fourier",
    "mean": "mean pool",
    "grid4": "4 × 4 pool",
    "raw pixels, PCA": "PCA",
}


def display_name(name: str) -> str:
    """Return the display name of a block, an encoding or a pool."""
    return DISPLAY_NAMES.get(name, name)


def block_color(block: str) -> str:
    """Return the color of a block, the same in all figures."""
    return BLOCK_COLORS.get(block, style.TEXT_COLOR)


def depth_text(depth: int) -> str:
    """Return a depth as `3 blocks`."""
    return f"{depth} block{'s' * (depth != 1)}"


def marker_size(depth: int) -> float:
    """Return the size of the points of a depth."""
    return 2 + 2 * depth**0.5


def marker_look(encoding: str, color: str, *, hollow: bool) -> dict[str, Any]:
    """Return the look of a marker of an encoding; hollow is untrained."""
    face, edge = (style.BACKGROUND, color) if hollow else (color, style.BACKGROUND)
    return {
        "marker": MARKERS.get(encoding, "D"),
        "color": color,
        "markerfacecolor": face,
        "markeredgecolor": edge,
        "markeredgewidth": 0.9 if hollow else 0.5,
    }


def ordered(names: Iterable[str], order: Iterable[str]) -> list[str]:
    """Return each name once, known ones in this order."""
    known, found = list(order), dict.fromkeys(names)
    return sorted(found, key=lambda name: known.index(name) if name in known else len(known))


def block_order(blocks: Iterable[str]) -> list[str]:
    """Return each block once, in the order of all figures: convolution, mixer, transformers."""
    return ordered(blocks, BLOCK_COLORS)


def _key(label: str, **look: Any) -> Line2D:
    return Line2D([], [], label=label, **{"linestyle": "none", "color": style.TEXT_COLOR, **look})


def block_keys(blocks: Iterable[str]) -> list[Artist]:
    """Return the keys of the colors of blocks."""
    names = block_order(blocks)
    return [_key(display_name(each), color=block_color(each), linestyle="-", linewidth=5) for each in names]


def encoding_keys(encodings: Iterable[str], *, colored: bool = False) -> list[Artist]:
    """Return the keys of the markers of encodings; `colored` where color means the encoding too."""
    return [
        _key(
            display_name(each),
            linestyle="-" if colored else "none",
            **marker_look(
                each,
                ENCODING_COLORS.get(each, style.MUTED_COLOR) if colored else style.TEXT_COLOR,
                hollow=False,
            ),
        )
        for each in ordered(encodings, MARKERS)
    ]


def size_keys(depths: Iterable[int]) -> list[Artist]:
    """Return the keys of the sizes of points, by depth, and of hollow ones."""
    keys = [_key(depth_text(each), marker="o", markersize=marker_size(each)) for each in sorted(set(depths))]
    return [*keys, _untrained_key()]


def dash_keys(depths: Iterable[int]) -> list[Artist]:
    """Return the keys of the dashes of lines, by depth, and of hollow points."""
    keys = [
        _key(f"every layer, {depth_text(each)}", linestyle=DASHES.get(each, "-"), linewidth=1.5)
        for each in sorted(set(depths))
    ]
    return [*keys, _untrained_key()]


def pale_key() -> Line2D:
    """Return the key of pale lines."""
    return _key("pale: other encodings", linestyle="-", linewidth=1, alpha=0.35)


def _untrained_key() -> Line2D:
    return _key("hollow: untrained", marker="o", markerfacecolor=style.BACKGROUND, markersize=5)


def legends(figure: Figure, columns: Sequence[Sequence[Artist]]) -> None:
    """Add a legend per column below the panels."""
    for keys, place in zip(columns, LEGEND_PLACES[len(columns)], strict=True):
        figure.legend(handles=keys, loc=place, handletextpad=0.6, labelspacing=0.35, handlelength=1.8)


def draw_baselines(row: Sequence[Axes], baselines: Mapping[str, float], height: float) -> None:
    """Draw a line at each baseline in a row of panels of about this height in inches, labeled to the right of
    the last one. Baselines that coincide have one line and one label.
    """
    bottom, top = row[0].get_ylim()
    points = 72 * height  # of the panel
    lines = merge_baselines(baselines, LINE_WIDTH / points * (top - bottom))
    for axes in row:
        for name, value in lines.items():
            axes.axhline(value, color=style.MUTED_COLOR, linewidth=LINE_WIDTH, zorder=1, label=f"_{name}")
    values = [(value - bottom) / (top - bottom) for value in lines.values()]
    places = _spread(list(values), LINE_SPACING * style.PRINT_SIZE / points)
    look: Any = {"transform": row[-1].transAxes, "color": style.TEXT_COLOR}
    for name, value, place in zip(lines, values, places, strict=True):
        row[-1].text(1.08, place, name, va="center", fontsize=style.PRINT_SIZE, **look)
        leader: Any = {**look, "color": style.MUTED_COLOR, "clip_on": False, "label": DECORATION}
        row[-1].plot([1.005, 1.065], [value, place], linewidth=0.7, **leader)


def merge_baselines(baselines: Mapping[str, float], width: float) -> dict[str, float]:
    """Return baselines by display name in ascending order; those within `width` of the one below are one, as
    `PCA = raw pixels`, at their mean.
    """
    groups: list[list[tuple[str, float]]] = []
    for name, value in sorted(baselines.items(), key=lambda item: item[1]):
        if groups and value - groups[-1][-1][1] <= width:
            groups[-1].append((name, value))
        else:
            groups.append([(name, value)])
    return {
        " = ".join(display_name(name) for name, _ in same): sum(value for _, value in same) / len(same)
        for same in groups
    }


def _spread(places: list[float], gap: float) -> list[float]:
    """Move ascending places apart until neighbors have the gap."""
    for _ in range(50):
        for i in range(len(places) - 1):
            missing = max(0.0, gap - (places[i + 1] - places[i])) / 2
            places[i], places[i + 1] = places[i] - missing, places[i + 1] + missing
    return places
