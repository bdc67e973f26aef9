"""Accuracy over the steps of fine-tuning."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from isopix.plots import style
from isopix.plots.curves import HEIGHT, WIDTH, CurveLabel, LogRecord, label_curves


@style.figure_style()
def plot_finetuning_accuracy(
    records: Sequence[LogRecord], majority: float | None, *, best: LogRecord | None = None
) -> Figure:
    """Plot validation accuracy with the selected step ringed, test accuracy, and the majority class."""
    figure = style.new_figure(HEIGHT, WIDTH)
    axes = figure.add_subplot()
    validation = [(each["step"], each["accuracy"]) for each in records if each["split"] == "validation"]
    labels = []
    if validation:
        color, last = style.COLORS[1], validation[-1][1]
        axes.plot(*zip(*validation, strict=True), color=color, marker="o")
        reported = last if best is None else best["accuracy"]
        labels.append(CurveLabel(last, f"validation {100 * reported:.1f} %", color))
    if best:
        axes.plot(
            *(best["step"], best["accuracy"], "o"),
            color=style.COLORS[1],
            markersize=11,
            markerfacecolor="none",
        )
    for each in records:
        if each["split"] == "test":
            point = each.get("best_step", each["step"]), each["accuracy"]
            axes.plot(*point, "D", color=style.TEXT_COLOR, clip_on=False, zorder=3)
            labels.append(
                CurveLabel(each["accuracy"], f"test {100 * each['accuracy']:.1f} %", style.TEXT_COLOR)
            )
    if majority is not None:
        axes.axhline(majority, color=style.MUTED_COLOR, linewidth=1, linestyle=":")
        labels.append(CurveLabel(majority, f"majority class {100 * majority:.1f} %", style.MUTED_COLOR))
    axes.set(xlabel="Step", ylabel="Accuracy")
    style.percent_ticks(axes.yaxis)
    axes.margins(x=0.03)
    axes.set_xlim(left=min(0, axes.get_xlim()[0]))  # shows step 0 even for a single point
    accuracies = [*(label.y for label in labels), *(accuracy for _, accuracy in validation)]
    axes.set_ylim(0, min(1.04, 1.2 * max(accuracies, default=1)))
    label_curves(axes, labels)
    return figure
