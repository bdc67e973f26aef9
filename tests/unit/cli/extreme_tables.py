"""All tables of the command line, of results with long names, many layers and large numbers."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from isopix.analysis.auroc import AUROC
from isopix.analysis.parallel_cost import DeviceMemory
from isopix.analysis.scores import SCORES
from isopix.api import inspection
from isopix.api.neighbors_output import DuplicatePair, NamedImage, NeighborsOutput, Outlier
from isopix.api.reproduction import PlannedTrial
from isopix.api.results import LowDataOutput, PlanOutput
from isopix.api.score_output import ScoredImages, ScoreOutput
from isopix.cli import (
    analyze,
    compare,
    complete,
    low_data,
    neighbors,
    plan,
    probe,
    report,
    reproduce,
    score,
    search_lr,
)
from isopix.core.measurement import EnsembleAccuracy, Measurement
from isopix.core.stats import CrossedMean
from isopix.finetuning.results import ClassificationMetrics
from isopix.probing.config import ProbeConfig
from isopix.probing.low_data import LowDataResult
from isopix.probing.results import ConcatResult, LayerScore, ProbeReport, ProbeResult
from isopix.reporting.baselines import BaselineRow
from isopix.runs.model_list import ShippedModel
from isopix.studies.comparison import Comparison, LabelDraw
from isopix.studies.protocols.write_up import ProtocolTable
from isopix.train.lr_search import LRSearch, LRTrial
from isopix.verbs import models
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
    patch.setattr("isopix.api.inspection.analyze", lambda *args, **options: found)
    analyze.analyze(Path("run"))


def show_compare(patch: Patch) -> None:
    draws, difference = (LabelDraw(0, 0),), CrossedMean(-1.0, 1.0, 1.0, 1.0)
    many = Comparison(NAME, NAME, (0,), draws, BIG, [[1.0]], [[1.0]], difference, [[None]], [[None]], (NAME,))
    found = SimpleNamespace(comparisons=[many, many], path=None)
    patch.setattr("isopix.api.comparison.compare", lambda *args, **options: found)
    compare.compare("runs")


def show_complete(patch: Patch) -> None:
    completions = SimpleNamespace(likelihood="path")
    likelihoods = torch.full((8, 16), -1234567.8)
    masks = torch.ones(8, 2, 2, dtype=torch.bool)
    found = SimpleNamespace(
        completions=completions, log_likelihood=likelihoods, mask=masks, record={}, path="p.png"
    )
    patch.setattr("isopix.api.generation.complete", lambda *args, **options: found)
    complete.complete(Path("run"))


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


def show_models(patch: Patch) -> None:
    baseline = (NAME, 12.3456)
    one = ShippedModel(LONG_RECIPE, NAME, NAME, BIG, BIG, 12.3456, baseline, 1.0, (NAME, 1.0), "", Path())
    patch.setattr("isopix.verbs.models.list_models", lambda: [one, one])
    models.models()


def show_neighbors(patch: Patch) -> None:
    first, second = NamedImage("train", 0, f"/{FILE}"), NamedImage("test", BIG, "")
    outliers = [Outlier(0.5, first, second)] * 3
    pairs = [DuplicatePair(0.99, first, second, 12.3)] * 3
    found = NeighborsOutput(pairs, BIG, outliers, {"data": NAME, "layer": MANY}, None)
    neighbors._show(found, 0.95, 1000)


@cache
def huge_plan() -> PlanOutput:
    """The plan of a tiny recipe with the numbers of a huge one."""
    small = inspection.plan("igpt.digits", overrides=["depth=1"], devices=["16xA100 40GB"], device="cpu")
    sizes = DeviceMemory(*[10**15] * len(DeviceMemory._fields))
    [plans] = small.parallel
    huge = [each._replace(memory=sizes, hours=1e9, sent_bytes=1e15, accumulate=4096) for each in plans]
    large = {"parameters": BIG, "training_flops": BIG, "weight_bytes": BIG, "step_bytes": BIG, "images": BIG}
    hours = [each._replace(hours=1e9, price=1e15) for each in small.device_hours]
    named = replace(small.recipe, name=LONG_RECIPE)
    return replace(small, recipe=named, **large, seconds=1e15, device_hours=hours, parallel=[huge], price=1e6)


def show_plan(patch: Patch) -> None:
    found = replace(huge_plan(), parallel=[])
    patch.setattr(inspection, "plan", lambda *args, **options: found)
    plan.plan("igpt.digits")
    plan.plan(review=True)


def show_parallel_tables(patch: Patch) -> None:
    found = huge_plan()
    patch.setattr(inspection, "plan", lambda *args, **options: found)
    plan.plan("igpt.digits")


def show_probe(patch: Patch) -> None:
    config = ProbeConfig(mask_ensemble=1000, concat=5)
    names = ("untrained", "shuffled labels", "raw pixels", "raw pixels, PCA")
    probe._print_report(ProbeReport(config, RESULT, dict.fromkeys(names, RESULT), SCORE, MEASURED))


def show_report(patch: Patch) -> None:
    row = BaselineRow(NAME, "run", f"{NAME}, {NAME}", 1e9, MANY, 1.0, 0.999, 1.0)
    found = SimpleNamespace(
        summary=[row, row._replace(kind="baseline")], notes=[NAME * 3], path=Path("report.html")
    )
    patch.setattr("isopix.api.inspection.report", lambda *args, **options: found)
    report.report(Path("run"))


def show_reproduce(patch: Patch) -> None:
    reproduce.reproduce("list")
    name = f"low-data-{LONG_RECIPE}-translated-digits-finetuned"
    reproduce._print_plan("igpt.table4", [PlannedTrial(name, 1234, BIG)] * 2, json=False)
    columns = [{"name": name, "unit": "%"} for name in ("40 labels", "250 labels", "4,000 labels")]
    cells = {each["name"]: {"value": 98.7, "std": 12.3} for each in columns}
    row = {"method": NAME, "data": NAME, "cells": cells, "model": "igpt-l", "source": "", "measured": True}
    head = {"statement": NAME * 3, "protocol": "igpt.table4", "title": NAME}
    table = ProtocolTable({**head, "columns": columns, "rows": [row]}, Path("table.html"))
    reproduce._print_table(table, json=False)


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
