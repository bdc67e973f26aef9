"""Fine-tuning drawn: the share of images that are answered rightly, over the steps."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from isopix.plots import style
from isopix.plots.curves import HEIGHT, WIDTH, Label, annotate

Record = Mapping[str, Any]  # a line of a run's log


@style.paper()
def accuracy_by_step(
    records: Sequence[Record], chance: float | None, *, chosen: Record | None = None
) -> Figure:
    """Validation accuracy with the chosen step ringed, test accuracy, and the share of the most frequent
    class.
    """
    drawn = style.figure(HEIGHT, WIDTH)
    axes = drawn.add_subplot()
    seen = [(each["step"], each["accuracy"]) for each in records if each["split"] == "validation"]
    labels = []
    if seen:
        colour, last = style.LINES[1], seen[-1][1]
        axes.plot(*zip(*seen, strict=True), color=colour, marker="o")
        told = last if chosen is None else chosen["accuracy"]
        labels.append(Label(last, f"validation {100 * told:.1f} %", colour))
    if chosen:
        place = chosen["step"], chosen["accuracy"]
        axes.plot(*place, "o", color=colour, markersize=11, markerfacecolor="none")
    for each in records:
        if each["split"] == "test":
            place = each.get("best_step", each["step"])
            axes.plot(place, each["accuracy"], "D", color=style.INK, clip_on=False, zorder=3)
            labels.append(Label(each["accuracy"], f"test {100 * each['accuracy']:.1f} %", style.INK))
    if chance is not None:
        axes.axhline(chance, color=style.QUIET, linewidth=1, linestyle=":")
        labels.append(Label(chance, f"one class {100 * chance:.1f} %", style.QUIET))
    axes.set(xlabel="step", ylabel="accuracy")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    axes.margins(x=0.03)
    axes.set_xlim(left=min(0, axes.get_xlim()[0]))  # a lone point has a start too
    heights = [*(label.height for label in labels), *(share for _, share in seen)]
    axes.set_ylim(0, min(1.04, 1.2 * max(heights, default=1)))
    annotate(axes, labels)
    return drawn
