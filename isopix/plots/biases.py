"""Inductive biases by layer: translation error, permutation error, receptive field."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isopix.plots import style

HEIGHT = 2.5  # inches
PANELS = (  # key of a layer's record, title, axis label, name of the reference
    ("translation_error", "Translation error", "Relative error", "random pairs"),
    ("permutation_error", "Permutation error", "Relative error", "random pairs"),
    ("receptive_field_mean", "Receptive field", "Mean distance (positions)", "uniform"),
)


@style.figure_style()
def plot_inductive_biases(numbers: Mapping[str, Any]) -> Figure:
    """Plot the biases of one network, with references: an error of 1, and a uniform receptive field."""
    figure = style.new_figure(HEIGHT)
    for axes, panel, color in zip(figure.subplots(1, len(PANELS)), PANELS, style.COLORS, strict=False):
        layers = [(each["layer"], each[panel[0]]) for each in numbers["layers"]]
        axes.plot(*zip(*layers, strict=True), "o-", color=color, markersize=4, linewidth=1.4)
        _format(axes, panel, numbers["uniform_receptive_field_mean"])
    return figure


def _format(axes: Axes, panel: tuple[str, str, str, str], uniform: float) -> None:
    key, title, ylabel, name = panel
    reference = uniform if key == "receptive_field_mean" else 1.0
    top = max(axes.dataLim.y1, reference) or 1.0  # of a single position
    axes.axhline(reference, color=style.MUTED_COLOR, linewidth=0.9, zorder=1)
    place: Any = {"xytext": (0, 3), "textcoords": "offset points", "xycoords": axes.get_yaxis_transform()}
    axes.annotate(name, (1, reference), ha="right", color=style.TEXT_COLOR, **place)
    axes.set_title(title)
    axes.set(xlabel="Layer\n(0 = embedding)", ylabel=ylabel, ylim=(-0.03 * top, 1.16 * top))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
