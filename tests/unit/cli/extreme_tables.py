"""All tables of the command line, of results with long names, many layers and large numbers."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from isopix.api.results import LowDataOutput
from isopix.api.score_output import ScoreOutput
from isopix.reporting.baselines import BaselineRow

from isopix.analysis.results import AUROC, SCORES, ScoredImages
from isopix.api.neighbors_output import DuplicatePair, NamedImage, NeighborsOutput, Outlier
from isopix.cli import neighbors
from isopix.core.measurement import EnsembleAccuracy, Measurement
from isopix.finetuning.results import ClassificationMetrics
from isopix.probing.config import ProbeConfig
from isopix.probing.results import ConcatResult, LayerScore, LowDataResult, ProbeReport, ProbeResult
from isopix.verbs.analyze import analyze
from isopix.verbs.evaluate import evaluate
from isopix.verbs.low_data import low_data
from isopix.verbs.probe import probe
from isopix.verbs.report import report
from isopix.verbs.score import score

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
SCORE = LayerScore(MANY, 1.0, 1.0, 1.0, (0.999, 1.0), 1.0, 1.0, 1, ensemble=MASKS)
RESULT = ProbeResult(
    tuple(replace(SCORE, layer=layer) for layer in range(MANY)),
    best_index=MANY - 1,
    num_classes=1000,
    majority_accuracy=1.0,
    num_images={"test": BIG},
    warnings=(NAME,),
    concat=ConcatResult((100, 104), SCORE),
    num_features=BIG,
)


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
    patch.setattr("isopix.verbs.analyze.analyze", lambda *args, **options: found)
    analyze.analyze(Path("run"))


def show_evaluate(patch: Patch) -> None:
    metrics = ClassificationMetrics(BIG, 1.0, (0.999, 1.0), 1e9, 1.0, (None,), ((BIG,),), MASKS)
    evaluate._print_metrics(metrics, 1000, MEASURED)


def show_low_data(patch: Patch) -> None:
    of_count = [
        LowDataResult(count, 10 * count, 10_000, (9, 12, 15), (1.0, 0.0), num_features=BIG)
        for count in (1, 4, 25, 400, 5000, 123_456)
    ]
    results = {"trained": of_count, "untrained": of_count, "raw pixels": of_count, "fine-tuned": of_count}
    images = {"validation": BIG, "test": BIG}
    record = {"pool": "grid4"}
    found = LowDataOutput(results, "cifar10", images, BIG, (NAME,), MEASURED, record, None)
    low_data._print_errors(found)


def show_neighbors(patch: Patch) -> None:
    first, second = NamedImage("train", 0, f"/{FILE}"), NamedImage("test", BIG, "")
    outliers = [Outlier(0.5, first, second)] * 3
    pairs = [DuplicatePair(0.99, first, second, 12.3)] * 3
    found = NeighborsOutput(pairs, BIG, outliers, {"data": NAME, "layer": MANY}, None)
    neighbors._show(found, 0.95, 1000)


def show_probe(patch: Patch) -> None:
    config = ProbeConfig(mask_ensemble=1000, concat=5)
    names = ("untrained", "shuffled labels", "raw pixels", "raw pixels, PCA")
    probe._print_report(ProbeReport(config, RESULT, dict.fromkeys(names, RESULT), SCORE, MEASURED))


def show_report(patch: Patch) -> None:
    row = BaselineRow(NAME, "run", f"{NAME}, {NAME}", 1e9, MANY, 1.0, 0.999, 1.0)
    found = SimpleNamespace(
        summary=[row, row._replace(kind="baseline")], notes=[NAME * 3], path=Path("report.html")
    )
    patch.setattr("isopix.verbs.report.report", lambda *args, **options: found)
    report.report(Path("run"))


def show_score(patch: Patch) -> None:
    values = {name: torch.tensor([-98765.4321, 98765.4321], dtype=torch.float64) for name in SCORES}
    images = ScoredImages(NAME, "test", ["", ""], ["", ""], values, MEASURED)
    auroc = dict.fromkeys(SCORES, AUROC(1.0, 0.999, 1.0))
    found = ScoreOutput(images, images, auroc, {}, None)
    patch.setattr("isopix.verbs.score.score", lambda *args, **options: found)
    score.score(Path("run"))
