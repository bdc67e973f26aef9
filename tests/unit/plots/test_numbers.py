"""Every figure shows the numbers that it is given: numbers in = numbers drawn."""

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from isopix.analysis.embeddings import continuous_similarity, one_hot_similarity
from isopix.finetuning.results import CalibrationBin, ClassificationMetrics
from isopix.plots import biases, curves, embeddings, sheets, study
from isopix.plots.attention import plot_attention_distance, plot_attention_maps
from isopix.plots.classes import plot_classification
from isopix.storage.result import EnsembleAccuracy
from tests.golden.values import check_golden
from tests.unit.plots import cases
from tests.unit.plots.cases import content
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
PROBED = [
    {"kind": "evaluation", "split": "validation", "step": step, "loss_nats": 2.0}
    | {"probe_accuracy": 0.3 + step / 90, "probe_low": 0.2, "probe_high": 0.7}
    for step in (0, 20)
]
HIGH = STUDY._replace(baselines={"raw pixels": 0.9, "raw pixels, PCA": 0.31, "chance": 0.1})
CONFUSION = ((3, 1, 0), (0, 0, 0), (2, 0, 6))
BINS = (CalibrationBin(3, 0.32, 0.5), CalibrationBin(9, 0.9, 0.7))
METRICS = ClassificationMetrics(
    12, 0.75, (0.5, 0.9), 1.0, None, (), CONFUSION, EnsembleAccuracy(0.75, 0.75), 0.195, BINS
)
ENCODINGS = {"one-hot": one_hot_similarity(8), "continuous": continuous_similarity(8)}


CASES: dict[str, Callable[[], Figure]] = {
    "loss": lambda: curves.plot_loss(records(), 17, baselines={"unigram": 2.07}),
    "loss and probes": lambda: curves.plot_loss([*records(), *PROBED], None),
    "class loss": lambda: curves.plot_loss(
        [{**each, "class_nats": 0.25} for each in records()], 5, loss_key="class_nats"
    ),
    "probe": lambda: curves.plot_probe_accuracy({"a": evidence((0.3, 0.5, 0.4), (0.3, 0.2, 0.25), 0.41)}),
    "fine-tuning": lambda: curves.plot_finetuning_accuracy(
        [*TUNING, {"step": 20, "accuracy": 0.37, "split": "test"}], 0.11, best=TUNING[1]
    ),
    "accuracy against loss": lambda: curves.plot_accuracy_vs_loss({"run": cases.POINTS}),
    "classification": lambda: plot_classification(METRICS, ["a", "$b$", "c"]),
    "bars": lambda: curves.plot_accuracy_bars({"x": [curves.Bar("one", 0.5, 0.6)]}),
    "attention": lambda: plot_attention_maps(cases.attention()),
    "attention distance": lambda: plot_attention_distance(DISTANCES),
    "positions": lambda: embeddings.plot_position_similarity(
        {"maps": MAPS.tolist(), "rows": [0, 3], "cols": [0, 2, 5]}
    ),
    "filters": lambda: embeddings.plot_filters(
        {"components": FILTERS.tolist(), "explained_variance_ratio": [0.1] * 9}
    ),
    "palette embedding": lambda: embeddings.plot_tables({"tables": TABLES[:1], "colors": [[0, 9, 255]] * 17}),
    "channel embeddings": lambda: embeddings.plot_tables({"tables": TABLES}),
    "encodings": lambda: embeddings.plot_level_similarity(ENCODINGS),
    "biases": lambda: biases.plot_inductive_biases(
        {"layers": cases.bias_layers(), "uniform_receptive_field_mean": 6.5}
    ),
    "study layers": lambda: study.plot_study_layers(STUDY, ["mixer", "conv"], 6),
    "study depth": lambda: study.plot_study_depth(STUDY),
    "study loss": lambda: study.plot_study_loss([STUDY]),
    "study loss of one seed": lambda: study.plot_study_loss([cases.results(1)]),
    "study loss below a baseline": lambda: study.plot_study_loss([HIGH] * 2),
    "study layers below a baseline": lambda: study.plot_study_layers(HIGH, ["mixer", "conv"], 6),
    "attention of many layers": lambda: plot_attention_maps(cases.attention(layers=25, heads=1)),
    "fine-tuning without a choice": lambda: curves.plot_finetuning_accuracy(TUNING, None),
    "fine-tuning of one step": lambda: curves.plot_finetuning_accuracy(TESTED, 0.1),
    "sizes of a wide range": lambda: sheets.plot_image_sizes({(20, 30): 4, (20, 50): 3, (900, 400): 1}),
    "sizes": lambda: sheets.plot_image_sizes({(20, 30): 4, (20, 50): 3}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_number_is_drawn(name: str) -> None:
    check_golden("figures", name, content(CASES[name]()))
