"""Predictions of classes: the confusion matrix, and the reliability diagram of their confidence."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from isopix.plots import style

MAX_NAMES = 30  # of classes along an axis
LARGEST_POINT = 130  # square points, of a bin with all images


@style.figure_style()
def plot_classification(metrics: Any, classes: Sequence[str]) -> Figure:
    """Plot metrics of `evaluate`: the fraction of the images of each class (rows) by prediction (columns),
    and accuracy by mean confidence in bins, whose images are the area of a point (Guo et al. 2017, figure 1).
    """
    figure = style.new_figure(3.7, 8.4)
    left, right = figure.subplots(1, 2)
    counts, names = np.array(metrics.confusion_matrix), classes if len(classes) <= MAX_NAMES else ()
    fractions = counts / counts.sum(1, keepdims=True).clip(1)
    image = left.imshow(fractions, cmap=style.SEQUENTIAL, vmin=0, vmax=1, interpolation="nearest")
    left.grid(visible=False)
    left.set(xlabel="Prediction", ylabel="Class")
    left.set_xticks(range(len(names)), names, rotation=90, parse_math=False)
    left.set_yticks(range(len(names)), names, parse_math=False)
    bar = figure.colorbar(image, label="Fraction of the class", shrink=0.75)
    bins = [(each.confidence, each.accuracy, each.images) for each in metrics.calibration]
    confidence, accuracy, images = np.array(bins).T
    right.plot([0, 1], [0, 1], color=style.MUTED_COLOR, linewidth=1, linestyle=style.DASHED)
    right.plot(confidence, accuracy, color=style.COLORS[0], linewidth=1)
    sizes = 4 + LARGEST_POINT * images / images.sum()
    right.scatter(confidence, accuracy, sizes, color=style.COLORS[0], clip_on=False, zorder=3)
    right.set_title(f"ECE {100 * metrics.calibration_error:.1f}%", fontweight="normal")
    right.set(xlabel="Confidence", ylabel="Accuracy", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    for axis in (bar.ax.yaxis, right.xaxis, right.yaxis):
        style.percent_ticks(axis)
    return figure
