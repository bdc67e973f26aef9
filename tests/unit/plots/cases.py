"""Made-up numbers for every figure, each different; and what a figure shows, read back from matplotlib."""

import base64
import io
import re
from itertools import product
from typing import Any

import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from isopix.plots import style
from isopix.plots.curves import ProbePoint
from isopix.plots.study import MeanStd, PoolResults, TrialGroup

BLOCKS, ENCODINGS, DEPTHS = ("conv", "mixer", "transformer-1"), ("pix2vec", "fourier"), (1, 3)
BASELINES = {"raw pixels": 0.32, "raw pixels, PCA": 0.31, "chance": 0.1}
GRID, PATCH_SIZE = (4, 5), 2
_STEPS = ((0, 2.83, 0.2), (10, 2.5, 0.3), (20, 2.2, 0.35), (30, 2.1, 0.33), (40, 1.9, 0.4), (50, 1.8, 0.45))
POINTS = [ProbePoint(step, loss, value, value - 0.05, value + 0.05) for step, loss, value in _STEPS]


def results(seeds: int = 2, pool: str = "mean") -> PoolResults:
    """A study of every block, encoding and depth."""
    trained, untrained = [], []
    for place, (block, encoding, depth) in enumerate(product(BLOCKS, ENCODINGS, DEPTHS)):
        layers = tuple(_spread(0.5 + 0.01 * layer + 0.001 * place, seeds) for layer in range(depth + 1))
        before = tuple(_spread(0.2 + 0.01 * layer + 0.001 * place, seeds) for layer in range(depth + 1))
        loss = _spread(4 - 0.02 * place, seeds)
        trained.append(TrialGroup(block, encoding, depth, loss, layers[-1], layers, before[-1]))
        untrained.append(TrialGroup(block, encoding, depth, loss, before[-1], before, before[-1]))
    return PoolResults(pool, trained, untrained, BASELINES)


def _spread(mean: float, seeds: int) -> MeanStd:
    return MeanStd(mean, 0.02 * mean * (seeds > 1), seeds)


def attention(causal: bool = False, layers: int = 3, heads: int = 2) -> dict[str, Any]:
    random = np.random.default_rng(0)
    content = io.BytesIO()
    pixels = random.integers(0, 256, (GRID[0] * PATCH_SIZE, GRID[1] * PATCH_SIZE, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(content, format="PNG")
    queries = []
    for row, col in ([2, 1], [0, 4]):
        allowed = np.arange(20).reshape(GRID) <= (row * GRID[1] + col if causal else 20)
        weights = random.random((layers, heads, *GRID)) * allowed
        weights /= weights.sum((2, 3), keepdims=True)
        uniform = allowed / allowed.sum()
        entropies = scipy.special.entr(weights).sum((2, 3)).tolist()
        query = {"position": [row, col], "heads": weights.tolist(), "entropies": entropies}
        queries.append({**query, "uniform": [uniform.tolist()] * layers, "rollout": uniform.tolist()})
    names = [str(i) for i in range(1, layers + 1)]
    common = {"grid": GRID, "patch_size": PATCH_SIZE, "causal": causal, "layer_names": names}
    return {**common, "queries": queries, "image": base64.b64encode(content.getvalue()).decode()}


def distances(names: list[str], means: list[list[float]], uniform: dict[str, float]) -> dict[str, Any]:
    """Attention distances of the heads of layers, with relative entropies of a tenth of them."""
    layers = [
        {
            "layer": name,
            "uniform_entropy": 2.0,
            "heads": [{"mean": x, "std": 0.5, "entropy_std": 0.1, "relative_entropy": x / 10} for x in heads],
        }
        for name, heads in zip(names, means, strict=True)
    ]
    return {"layers": layers, "uniform_distances": uniform, "causal": "causal" in uniform}


def bias_layers() -> list[dict[str, float]]:
    names = ("translation_error", "permutation_error", "receptive_field_mean")
    return [{"layer": i, **{name: place + 0.1 * i for place, name in enumerate(names)}} for i in range(3)]


HYPHEN = re.compile(r"(?<![\w{.])-[\d.]")  # as a minus; that of mathematics is set as one


def drawn(axes: Axes) -> list[Any]:
    """The heights of lines, ends of error bars, dots and bars, and the values of images, each a list."""
    found = [np.asarray(line.get_ydata(), dtype=float).tolist() for line in axes.lines]
    for each in axes.collections:
        segments = each.get_segments() if isinstance(each, LineCollection) else [each.get_offsets()]
        found += [np.asarray(part)[:, 1].tolist() for part in segments]
    found += [
        np.ma.filled(np.ma.asarray(each.get_array(), dtype=float), np.nan).tolist() for each in axes.images
    ]
    return found + [[each.get_y() + each.get_height()] for each in axes.patches]


def content(figure: Figure) -> list[Any]:
    """The texts of a figure with their places, and what is drawn in each panel, with colors."""
    shown = [
        [text.get_text(), text.get_position(), text.get_color()]
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_text() and text.get_visible()
    ]
    marks = [
        [
            *(line.get_xdata(), line.get_color(), line.get_marker(), line.get_linestyle(), line.get_label()),
            *(line.get_markersize(), line.get_markerfacecolor()),
        ]
        for axes in figure.axes
        for line in axes.lines
    ]
    patches = [each for axes in figure.axes for each in axes.patches]
    bars = [[each.get_x(), each.get_width(), each.get_facecolor()] for each in patches]
    panels = {i: [*drawn(axes), *axes.get_xlim(), *axes.get_ylim()] for i, axes in enumerate(figure.axes)}
    return [shown, marks, bars, panels]


def texts(figure: Figure, panel: int = 0) -> list[str]:
    return [text.get_text() for text in figure.axes[panel].texts]


def check_readable(figure: Figure) -> None:
    """Fail for text below the size of print, "-" as a minus, and text off the page."""
    figure.canvas.draw()
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        content = text.get_text()
        if content.strip() and text.get_visible():
            assert text.get_fontsize() >= style.PRINT_SIZE, content
            assert not HYPHEN.search(content), content
    labels = [label for axes in figure.axes for label in (axes.xaxis.label, axes.yaxis.label, *axes.texts)]
    for text in (*labels, *(text for legend in figure.legends for text in legend.get_texts())):
        box, page = text.get_window_extent(), figure.bbox
        inside = min(box.x0, box.y0) >= -1 and box.x1 <= page.x1 + 1 and box.y1 <= page.y1 + 1
        assert inside or not text.get_text(), text.get_text()
