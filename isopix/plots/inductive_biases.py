"""Inductive biases: translation error, permutation error and receptive field by layer."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from isopix.plots import style
from isopix.plots.study_marks import BLOCK_COLORS, block_order, display_name

LayerRecord = Mapping[str, Any]  # as `BiasMeasurements.by_layer` gives it
FieldMap = tuple[Float[np.ndarray, "rows cols"], Int[np.ndarray, "rows cols"] | None]  # fractions, samples

HEIGHT, COMPARISON_HEIGHT = 2.5, 3.4  # inches, of one network and of several
MIN_FRACTION = 1e-6  # smallest fraction of the change that has a color
UNSAMPLED_COLOR = "#C3C9D1"
PANELS = (  # key of a layer's record, title, axis label, name of the reference
    ("translation_error", "Translation error", "Relative error", "random pairs"),
    ("permutation_error", "Permutation error", "Relative error", "random pairs"),
    ("receptive_field_mean", "Receptive field", "Mean distance (positions)", "uniform"),
)


@style.figure_style()
def plot_inductive_biases(numbers: Mapping[str, Any]) -> Figure:
    """Plot the `inductive_biases` analysis of one network, with references: 1 for the errors, which is no
    better than random pairs, and a uniform receptive field.
    """
    figure = style.new_figure(HEIGHT)
    for axes, panel, color in zip(figure.subplots(1, len(PANELS)), PANELS, style.COLORS, strict=False):
        _line(axes, panel[0], numbers["layers"], color)
        _format(axes, panel, numbers["uniform_receptive_field_mean"])
    return figure


@style.print_style()
def compare_inductive_biases(
    networks: Mapping[str, Sequence[LayerRecord]],
    *,
    uniform: float | None = None,
    stds: Mapping[str, Sequence[LayerRecord]] | None = None,
) -> Figure:
    """Plot the inductive biases of several networks by name, blocks in the order of all figures, with
    `uniform` as the reference of the receptive field; `stds` are the lengths of error bars.
    """
    figure = style.new_figure(COMPARISON_HEIGHT)
    figure.set_layout_engine("constrained", w_pad=0.1)
    panels = figure.subplots(1, len(PANELS))
    others = cycle(color for color in style.COLORS if color not in map(BLOCK_COLORS.get, networks))
    colors = {name: BLOCK_COLORS.get(name) or next(others) for name in block_order(networks)}
    for axes, panel in zip(panels, PANELS, strict=True):
        for name, color in colors.items():
            _line(axes, panel[0], networks[name], color, name, (stds or {}).get(name))
        _format(axes, panel, uniform)
    keys = panels[0].get_legend_handles_labels()
    figure.legend(*keys, loc="outside lower center", ncols=min(3, len(networks)))
    style.enlarge_ticks(figure)
    return figure


def _line(
    axes: Axes,
    key: str,
    layers: Sequence[LayerRecord],
    color: str,
    name: str = "",
    stds: Sequence[LayerRecord] | None = None,
) -> None:
    look: Any = {"color": color, "marker": "o", "markersize": 4, "linewidth": 1.4, "elinewidth": 0.9}
    x, y = ([layer[each] for layer in layers] for each in ("layer", key))
    bars = None if stds is None else [layer[key] for layer in stds]
    axes.errorbar(x, y, yerr=bars, label=display_name(name), **look)


def _format(axes: Axes, panel: tuple[str, str, str, str], uniform: float | None) -> None:
    """Draw the reference of a panel, and set its title, labels and limits."""
    key, title, ylabel, name = panel
    reference = uniform if key == "receptive_field_mean" else 1.0
    top = axes.dataLim.y1 or 1.0  # of a receptive field of one position
    if reference is not None:
        top = max(top, reference)
        axes.axhline(reference, color=style.MUTED_COLOR, linewidth=0.9, zorder=1)
        look: Any = {
            "xytext": (0, 3),
            "textcoords": "offset points",
            "ha": "right",
            "color": style.TEXT_COLOR,
        }
        axes.annotate(name, (1, reference), xycoords=axes.get_yaxis_transform(), **look)
    axes.set_title(title)
    axes.set(xlabel="Layer\n(0 = embedding)", ylabel=ylabel, ylim=(-0.03 * top, 1.16 * top))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


@style.print_style()
def plot_receptive_fields(networks: Mapping[str, FieldMap]) -> Figure:
    """Plot where a change of the central position shows, as fractions by (row, column) offset and on a
    logarithmic scale, for one layer of each network by name. Smaller fractions are white, and offsets with 0
    samples are gray.
    """
    figure = style.new_figure(1.8 + 4.6 / max(3, len(networks)))
    panels = figure.subplots(1, len(networks), squeeze=False)[0]
    image, ordered = None, {name: networks[name] for name in block_order(networks)}
    for axes, (name, (fractions, samples)) in zip(panels, ordered.items(), strict=True):
        down, right = (side // 2 for side in fractions.shape)
        options: Any = {"extent": (-right - 0.5, right + 0.5, down + 0.5, -down - 0.5)}
        unsampled = np.zeros_like(fractions) if samples is None else samples == 0
        grays = ListedColormap([style.BACKGROUND, UNSAMPLED_COLOR])
        axes.imshow(unsampled, cmap=grays, vmin=0, vmax=1, interpolation="none", **options)
        shown, norm = np.ma.masked_less(fractions, MIN_FRACTION), LogNorm(MIN_FRACTION, 1)
        image = axes.imshow(shown, norm=norm, cmap="viridis", interpolation="none", **options)
        axes.set_title(style.wrap_title(display_name(name)))
        axes.set(xticks=[-right, 0, right], yticks=[-down, 0, down], xlabel="Column offset\n(positions)")
        axes.grid(visible=False)
        axes.tick_params(labelleft=axes is panels[0])
    assert image is not None, "at least one network"
    panels[0].set_ylabel("Row offset (positions)")
    figure.colorbar(image, ax=panels, label="Fraction of the change", shrink=0.75, aspect=18)
    keys = [Patch(facecolor=style.BACKGROUND, edgecolor=style.MUTED_COLOR, label="below $10^{-6}$")]
    if any(samples is not None and not samples.all() for _, samples in networks.values()):
        keys.append(Patch(facecolor=UNSAMPLED_COLOR, edgecolor=style.MUTED_COLOR, label="offset not sampled"))
    figure.legend(handles=keys, loc="outside lower center", ncols=2)
    style.enlarge_ticks(figure)
    return figure
