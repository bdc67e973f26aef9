"""Every figure shows the numbers that it is given: numbers in = numbers drawn."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from isopix.analysis.embeddings import continuous_similarity, one_hot_similarity
from isopix.plots import biases, curves, embeddings, sheets, study
from isopix.plots.attention import plot_attention_distance, plot_attention_maps
from isopix.plots.palette import plot_palette
from tests.golden.values import check_golden
from tests.unit.plots import cases
from tests.unit.plots.cases import content, drawn, shows
from tests.unit.reporting.cases import evidence, records

RANDOM = np.random.default_rng(0)
MAPS = RANDOM.uniform(-1, 1, (2, 3, 4, 6))
FILTERS = RANDOM.random((9, 4, 4, 3))
PROJECTIONS = RANDOM.normal(size=(3, 17, 4))
RATIOS = [0.4, 0.3, 0.2, 0.1]
STUDY = cases.results()
TABLES = [{"projections": each.tolist(), "explained_variance_ratio": RATIOS} for each in PROJECTIONS]
DISTANCES = cases.distances(["1", "2"], [[2.0, 3.0], [4.0, 5.0]], {"all positions": 9.0})
TUNING = [{"step": step, "accuracy": step / 50, "split": "validation"} for step in (0, 10, 20)]
TESTED = [{"step": 40, "accuracy": 0.5, "split": "test"}]
HIGH = STUDY._replace(baselines={"raw pixels": 0.9, "raw pixels, PCA": 0.31, "chance": 0.1})
ATTENTION = cases.attention()
COLORS = [[250, 240, 10], [3, 2, 1], [90, 20, 200]]
ENCODINGS = {"one-hot": one_hot_similarity(8), "continuous": continuous_similarity(8)}


def mosaic() -> Any:
    """The maps of positions, each at its place, one column or row of nothing between them."""
    found = np.full((2 * 5 - 1, 3 * 7 - 1), np.nan)
    for row in range(2):
        for col in range(3):
            found[5 * row : 5 * row + 4, 7 * col : 7 * col + 6] = MAPS[row, col]
    return found


CASES: dict[str, tuple[Callable[[], Figure], dict[int, list[Any]]]] = {
    "loss": (
        lambda: curves.plot_loss(records(), 17, baselines={"unigram": 2.07}),
        {0: [[math.log(17)] * 2, [2.07] * 2, [2.833, 1.9], [1.8], [2.8 - i / 10 for i in range(1, 11)]]},
    ),
    "class loss": (
        lambda: curves.plot_loss(
            [{**each, "class_nats": 0.25} for each in records()], 5, loss_key="class_nats"
        ),
        {0: [[0.25] * 10, [0.25] * 2, [0.25]]},
    ),
    "probe": (
        lambda: curves.plot_probe_accuracy({"a": evidence((0.3, 0.5, 0.4), (0.3, 0.2, 0.25), 0.41)}),
        {0: [[0.3, 0.5, 0.4, 0.6], [0.3, 0.2, 0.25, 0.4], [0.41] * 2, [0.1] * 2, [0.5]]},
    ),
    "fine-tuning": (
        lambda: curves.plot_finetuning_accuracy(
            [*TUNING, {"step": 20, "accuracy": 0.37, "split": "test"}], 0.11, best=TUNING[1]
        ),
        {0: [[0, 0.2, 0.4], [0.2], [0.37], [0.11] * 2]},
    ),
    "accuracy against loss": (
        lambda: curves.plot_accuracy_vs_loss({"run": cases.POINTS}),
        {0: [[each.accuracy for each in cases.POINTS[1:]], [0.2] * 2, [0.25, 0.35], [0.45]]},
    ),
    "bars": (lambda: curves.plot_accuracy_bars({"x": [curves.Bar("one", 0.5, 0.6)]}), {0: [[0.5], [0.6]]}),
    "forest": (lambda: biases.plot_forest(cases.FOREST), {0: [[0], [0, 0]], 1: [[-0.17], [0.17], [1]]}),
    "attention": (
        lambda: plot_attention_maps(ATTENTION),
        {1: [20 * np.array(ATTENTION["queries"][0]["heads"][0][0])]},
    ),
    "attention distance": (
        lambda: plot_attention_distance(DISTANCES),
        {0: [[2, 3], [4, 5], [1.5, 2.5], [9.0] * 2, [2.5, 4.5]], 1: [[0.2, 0.3], [0.15, 0.25], [1.0] * 2]},
    ),
    "positions": (
        lambda: embeddings.plot_position_similarity(
            {"maps": MAPS.tolist(), "rows": [0, 3], "cols": [0, 2, 5]}
        ),
        {0: [mosaic()]},
    ),
    "filters": (
        lambda: embeddings.plot_filters(
            {"components": FILTERS.tolist(), "explained_variance_ratio": [0.1] * 9}
        ),
        {0: [FILTERS[0]], 4: [FILTERS[4]]},
    ),
    "palette embedding": (
        lambda: embeddings.plot_tables({"tables": TABLES[:1], "colors": [[0, 9, 255]] * 17}),
        {0: [PROJECTIONS[0, :, 1]], 1: [PROJECTIONS[0, :, 3]], 2: [[0.4, 0.7, 0.9, 1]]},
    ),
    "channel embeddings": (
        lambda: embeddings.plot_tables({"tables": TABLES}),
        {1: [PROJECTIONS[1, :, 2]], 3: [[0.4, 0.7, 0.9, 1]]},
    ),
    "encodings": (
        lambda: embeddings.plot_level_similarity(ENCODINGS),
        {i: [each.similarity] for i, each in enumerate(ENCODINGS.values())},
    ),
    "biases": (
        lambda: biases.plot_inductive_biases(
            {"layers": cases.bias_layers(), "uniform_receptive_field_mean": 6.5}
        ),
        {0: [[0, 0.1, 0.2], [1] * 2], 1: [[1, 1.1, 1.2]], 2: [[2, 2.1, 2.2], [6.5] * 2]},
    ),
    "compared biases": (
        lambda: biases.compare_inductive_biases(
            {"mixer": cases.bias_layers(), "conv": cases.bias_layers(5)},
            2.0,
            stds={"conv": cases.bias_layers()},
        ),
        {0: [[0, 0.1, 0.2], [5, 5.1, 5.2], [5, 5.2]], 2: [[7, 7.1, 7.2], [5, 9]]},
    ),
    "study layers": (
        lambda: study.plot_study_layers(STUDY, ["mixer", "conv"], 6),
        {0: [[layer.mean for layer in STUDY.trained[place].layers] for place in (5, 7)]},
    ),
    "study depth": (
        lambda: study.plot_study_depth(STUDY),
        {
            0: [
                [each.accuracy.mean for each in STUDY.trained[:2]],
                [each.untrained.mean for each in STUDY.trained[:2]],
                [0.1] * 2,
            ],
            2: [[0.2, 0.21]],
        },
    ),
    "study loss": (
        lambda: study.plot_study_loss([STUDY]),
        {0: [[STUDY.trained[4].untrained.mean]], 1: [[0.512]]},
    ),
    "study loss of one seed": (lambda: study.plot_study_loss([cases.results(1)]), {}),
    "study loss below a baseline": (lambda: study.plot_study_loss([HIGH] * 2), {}),
    "study layers below a baseline": (lambda: study.plot_study_layers(HIGH, ["mixer", "conv"], 6), {}),
    "attention of many layers": (lambda: plot_attention_maps(cases.attention(layers=25, heads=1)), {}),
    "fine-tuning without a choice": (lambda: curves.plot_finetuning_accuracy(TUNING, None), {}),
    "fine-tuning of one step": (lambda: curves.plot_finetuning_accuracy(TESTED, 0.1), {0: [[0.5]]}),
    "palette": (lambda: plot_palette(torch.tensor(COLORS).float(), torch.tensor([5, 1, 2])), {}),
    "sizes": (lambda: sheets.plot_image_sizes({(20, 30): 4, (20, 50): 3}), {0: [[7]], 1: [[4], [3]]}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_number_is_drawn(name: str) -> None:
    draw, expected = CASES[name]
    figure = draw()
    for panel, wanted in expected.items():
        for each in wanted:
            assert shows(figure.axes[panel], each), (panel, each, drawn(figure.axes[panel]))
    check_golden("figures", name, content(figure))
