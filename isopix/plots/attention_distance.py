"""Attention distance and entropy by layer and head; the numbers are those of the analysis."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isopix.plots import style
from isopix.plots.curves import CurveLabel, label_curves

Numbers = Mapping[str, Any]

WIDTH, HEIGHT = style.PAGE_WIDTH, 3.2  # inches
SPREAD = 0.28  # layers, over which the heads of a layer, or its attentions, are spread
MARGIN = 0.08  # of the range of values, above and below it
MARKERS = "os"  # of rows and of columns


class _Heads(NamedTuple):
    """Means and standard deviations of the heads of one attention of a layer."""

    layer: int
    means: Float[np.ndarray, " heads"]
    stds: Float[np.ndarray, " heads"]


@style.figure_style()
def plot_attention_distance(numbers: Numbers) -> Figure:
    """Plot mean attention distance (Vision Transformer, figure 7, right) and entropy of every head, with
    their standard deviations over images.

    Lines show the mean of each layer, for axial attention of rows and of columns, and uniform attention. The
    axes end where the values end.
    """
    figure = style.new_figure(HEIGHT, WIDTH)
    left, right = figure.subplots(1, 2)
    uniform = numbers["uniform_distances"]
    uniform = {"": uniform["causal"]} if numbers["causal"] else uniform
    _plot(left, _by_name(numbers["layers"]), uniform, digits=1)
    left.set(title="Mean attention distance", ylabel="Pixels")
    _plot(right, _by_name([_relative_entropies(each) for each in numbers["layers"]]), {"": 1.0}, digits=2)
    right.set(title="Entropy", ylabel="Relative to uniform attention")
    style.add_key(
        figure, "marker: one head; bar: ± one standard deviation over images; line: mean of the heads"
    )
    return figure


def _relative_entropies(layer: Numbers) -> Numbers:
    """Return the entropies of the heads and their standard deviations, as fractions of the uniform one."""
    uniform = layer["uniform_entropy"] or 1.0  # 0 for a single position
    heads = [
        {"mean": head["relative_entropy"], "std": head["entropy_std"] / uniform} for head in layer["heads"]
    ]
    return {"layer": layer["layer"], "heads": heads}


def _by_name(layers: Sequence[Numbers]) -> dict[str, list[_Heads]]:
    """Return the heads by the name of their attention: empty, or `rows` and `columns`."""
    found: dict[str, list[_Heads]] = {}
    for layer in layers:
        number, _, name = str(layer["layer"]).partition(" ")
        means, stds = (
            np.array([head[key] for head in layer["heads"]], dtype=float) for key in ("mean", "std")
        )
        found.setdefault(name, []).append(_Heads(int(number), means, stds))
    return found


def _plot(
    axes: Axes, attentions: Mapping[str, Sequence[_Heads]], uniform: Mapping[str, float], digits: int
) -> None:
    labels, ends = list[CurveLabel](), list[float]()
    for index, (name, layers) in enumerate(attentions.items()):
        color = style.COLORS[index % len(style.COLORS)]
        shift = SPREAD * (index - (len(attentions) - 1) / 2)
        for layer in layers:
            width = SPREAD / len(attentions) * (len(layer.means) > 1)
            x = layer.layer + shift + width * np.linspace(-0.5, 0.5, len(layer.means))
            axes.errorbar(
                *(x, layer.means, layer.stds),
                fmt=MARKERS[index % 2],
                color=color,
                ecolor=f"{color}55",
                elinewidth=1.6,
                label=f"_heads of layer {layer.layer}{f', {name}' if name else ''}",
            )
            ends += [*(layer.means - layer.stds), *(layer.means + layer.stds)]
        means = [float(layer.means.mean()) for layer in layers]
        line_color = color if name else style.TEXT_COLOR
        places = [layer.layer + shift for layer in layers]
        label = "_mean of the heads" + (f", {name}" if name else "")
        axes.plot(places, means, color=line_color, linewidth=1, zorder=1.5, label=label)
        labels.append(CurveLabel(means[-1], f"{name or 'mean'} {means[-1]:.{digits}f}", line_color))
    same = len(set(uniform.values())) == 1  # for rows and columns of a square
    for name, value in list(uniform.items())[: 1 if same else None]:
        text = "uniform" if same or name == "all positions" else f"uniform, {name}"
        axes.axhline(value, color=style.MUTED_COLOR, linewidth=1, linestyle=style.DASHED, label=f"_{text}")
        labels.append(CurveLabel(value, f"{text} {value:.{digits}f}", style.MUTED_COLOR))
    ends += uniform.values()
    margin = MARGIN * (max(ends) - min(ends) or 1)
    axes.set_ylim(max(0, min(ends) - margin) if min(ends) >= 0 else min(ends) - margin, max(ends) + margin)
    axes.set_xlim(0.5, max(layer.layer for layers in attentions.values() for layer in layers) + 0.5)
    axes.set_xlabel("Layer")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    label_curves(axes, labels)
