"""All tables of the command line, of results with long names, many layers and large numbers."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from isopix.analysis.auroc import AUROC
from isopix.analysis.scores import SCORES
from isopix.api.neighbors_output import DuplicatePair, NamedImage, NeighborsOutput, Outlier
from isopix.api.score_output import ScoredImages, ScoreOutput
from isopix.cli import analyze, neighbors, report, score, search_lr
from isopix.core.measurement import EnsembleAccuracy, Measurement
from isopix.finetuning.results import ClassificationMetrics
from isopix.reporting.baselines import BaselineRow
from isopix.train.lr_search import LRSearch, LRTrial
from isopix.verbs.evaluate import evaluate

Patch = pytest.MonkeyPatch

NAME = "photographs-of-many-things-2026 with their labels"
FILE = "folder/" * 12 + "photograph-0000000123.jpeg"  # longer than a line
MANY, BIG = 48, 1_234_567_890_123
LONG_RECIPE = "isotropic.translated_digits-transformer-1-nopos-continuous-12"
MEASURED = Measurement(
    data=NAME,
    split="test",
    images=BIG,
    available=BIG + 1,
    images_hash="",
    fitted_images=BIG,
    baselines={NAME: 0.1234},
)
MASKS = EnsembleAccuracy(single_mask=1.0, mean_probability=1.0)


def show_analyze(patch: Patch) -> None:
    head = {"mean": BIG, "std": BIG, "relative_to_uniform": BIG, "relative_entropy": BIG}
    layout = dict.fromkeys(("partial_2d", "partial_raster", "plain_2d", "plain_raster"), -1234.5)
    layout["raster_range"] = {"limit": 1234.5, "outside": True}
    bias = dict.fromkeys(("translation_error", "permutation_error", "receptive_field_mean"), 1e9)
    results = {
        "attention_distance": {
            "images": BIG,
            "layers": [{"layer": layer, "heads": [head]} for layer in range(MANY)],
            "uniform_distances": {NAME: BIG},
        },
        "position_embeddings": {
            "trained": layout,
            "untrained": layout,
            "shuffled": {"mean": 1e9, "std": 1e9, "permutations": 10**9},
        },
        "embedding_pca": {"weights": "tables", "tables": [{"explained_variance_ratio": [0.1] * 8}] * 48},
        "inductive_biases": {
            "images": BIG,
            "uniform_receptive_field_mean": 1e9,
            "layers": [{"layer": layer, "receptive_field_radius_95": BIG, **bias} for layer in range(MANY)],
        },
    }
    found = SimpleNamespace(results=results, not_applicable={NAME: NAME * 3}, path=Path("run"))
    patch.setattr("isopix.api.inspection.analyze", lambda *args, **options: found)
    analyze.analyze(Path("run"))


def show_evaluate(patch: Patch) -> None:
    metrics = ClassificationMetrics(BIG, 1.0, (0.999, 1.0), 1e9, 1.0, (None,), ((BIG,),), MASKS)
    evaluate._print_metrics(metrics, 1000, MEASURED)


def show_neighbors(patch: Patch) -> None:
    first, second = NamedImage("train", 0, f"/{FILE}"), NamedImage("test", BIG, "")
    outliers = [Outlier(0.5, first, second)] * 3
    pairs = [DuplicatePair(0.99, first, second, 12.3)] * 3
    found = NeighborsOutput(pairs, BIG, outliers, {"data": NAME, "layer": MANY}, None)
    neighbors._show(found, 0.95, 1000)


def show_report(patch: Patch) -> None:
    row = BaselineRow(NAME, "run", f"{NAME}, {NAME}", 1e9, MANY, 1.0, 0.999, 1.0)
    found = SimpleNamespace(
        summary=[row, row._replace(kind="baseline")], notes=[NAME * 3], path=Path("report.html")
    )
    patch.setattr("isopix.api.inspection.report", lambda *args, **options: found)
    report.report(Path("run"))


def show_score(patch: Patch) -> None:
    values = {name: torch.tensor([-98765.4321, 98765.4321], dtype=torch.float64) for name in SCORES}
    images = ScoredImages(NAME, "test", ["", ""], ["", ""], values, MEASURED)
    auroc = dict.fromkeys(SCORES, AUROC(1.0, 0.999, 1.0))
    found = ScoreOutput(images, images, auroc, {}, None)
    patch.setattr("isopix.api.scoring.score", lambda *args, **options: found)
    score.score(Path("run"))


def show_search_lr(patch: Patch) -> None:
    trials = (
        LRTrial(1e-5, "diverged", 123_456_789, 1.2e30, 1e9),
        LRTrial(3e-6, "failed", 123_456_789, 98765.4321, 1e9, reason=NAME * 3),
    )
    search_lr._print_trials(LRSearch((1e-5, 3e-6, 1e-6, 3e-7), trials), Path(NAME))
