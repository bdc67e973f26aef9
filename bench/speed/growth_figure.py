"""Growth of the cost of training: images per second by batch, depth, width and resolution."""

from collections.abc import Mapping
from typing import Any

from matplotlib.ticker import LogLocator, StrMethodFormatter

from isopix.plots import style

HEIGHT = 2.5  # inches
AXES = {
    "batch": "Batch size",
    "depth": "Depth (blocks)",
    "width": "Width (channels)",
    "side": "Side (pixels)",
}


@style.figure_style()
def plot_growth(record: Mapping[str, Any]) -> style.Figure:
    """Plot the record of the benchmark `growth`: medians with their range, and the model of the time."""
    panels, values = record["alternatives"], record["values"]
    figure = style.new_figure(HEIGHT)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, (name, times) in zip(axes, panels.items(), strict=True):
        sizes = list(map(int, times))
        rates = [1 / each["median"] for each in times.values()]
        below = [rate - 1 / each["max"] for rate, each in zip(rates, times.values(), strict=True)]
        above = [1 / each["min"] - rate for rate, each in zip(rates, times.values(), strict=True)]
        model = [1 / values[f"model, {name} {size}"] for size in times]
        panel.plot(sizes, model, color=style.MUTED_COLOR, linestyle=style.DASHED, label="model")
        panel.errorbar(sizes, rates, (below, above), fmt="o", color=style.COLORS[0], label="measured")
        panel.set(xlabel=AXES[name], xscale="log", yscale="log")
        panel.set_xticks(sizes, list(map(str, sizes)))
        panel.minorticks_off()
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes[0].set_ylabel("Images per second")
    axes[0].legend(loc="best")
    deviation = values["largest deviation of the model"]
    repeats = min(each["n"] for times in panels.values() for each in times.values())
    style.add_key(
        figure,
        f"median and range of {repeats} repeats; the model is within {100 * deviation:.0f}% of all medians",
    )
    return figure
