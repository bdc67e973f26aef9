"""Verbs that train nothing: they write logs and records, and remember what they were asked."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from isopix.finetuning.results import ClassificationMetrics, EvaluationResult
from isopix.probing.results import ConcatScore, FewLabels, LowDataResult
from isopix.recipes.recipe import Recipe
from isopix.storage.result import EnsembleAccuracy, Result
from isopix.storage.run_folder import RunFolder
from isopix.studies.papers.protocol import STUDIES, protocols
from tests.unit.reporting.cases import call, evidence, measurement, scores

TABLES = [name for name in protocols() if name not in STUDIES]
Score = Callable[[Sequence[str]], tuple[float, float]]  # validation and test accuracy by the settings


def half(settings: Sequence[str]) -> tuple[float, float]:
    return 0.5, 0.5


class FakeVerbs:
    """Fine-tuned runs have the accuracies of `score`, on test that of the one evaluated; commands raise
    `errors`.
    """

    def __init__(self, score: Score = half, **errors: BaseException):
        self.score, self.errors, self.calls = score, errors, list[tuple[str, Path, tuple[str, ...]]]()

    def __call__(self, command: str, run: Path | Recipe, *settings: str, **options: Any) -> Path:
        folder = options.get("out", run)
        self.calls.append((command, folder, settings))
        if command in self.errors:
            raise self.errors[command]
        if command in ("pretrain", "finetune"):
            return self._run(folder, settings)
        found: Result = getattr(self, command.replace("-", "_"))(folder, options)
        path = folder / command / f"{options.get('data')}-{len(options)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        return found.saved(path).path or path

    def evaluate(self, run: Path, options: Mapping[str, Any]) -> Result:
        test = json.loads((run / "test.json").read_text())
        ensemble = EnsembleAccuracy(test / 2, test / 4)
        metrics = ClassificationMetrics(9, test, (0, 1), 1.0, None, (), (), ensemble, 0.0, ())
        shared: Any = {"data": "digits", "step": 9, "mask_ensemble": 0, "precision": "fp32", "classes": ()}
        shared["measurement"] = measurement()
        return EvaluationResult(call=call("evaluate"), metrics=metrics, **shared)

    def probe(self, run: Path, options: Mapping[str, Any]) -> Result:
        if "labels" in options:
            return self.few_labels(options)
        found = scores([0.25, 0.75])
        layers = [replace(each, ensemble=EnsembleAccuracy(0.2, 0.22)) for each in found.layers]
        concat = ConcatScore((0, 1), replace(layers[0], test_accuracy=0.35))
        network = replace(found, layers=tuple(layers), best_index=0, concat=concat)
        return evidence(network=network, refit=replace(layers[0], test_accuracy=0.3))

    def few_labels(self, options: Mapping[str, Any]) -> Result:
        results = dict[str, Any]()
        for place, method in enumerate(("trained", "untrained", "raw pixels", "fine-tuned"), start=1):
            means = {count: place / 10 + count / 1000 for count in options["labels"]}
            errors = {count: (mean - 0.01, mean, mean + 0.01) for count, mean in means.items()}
            results[method] = tuple(FewLabels(count, 9, 9, None, each) for count, each in errors.items())
        shared: Any = {"data": "digits", "step": 9, "precision": "fp32"}
        return LowDataResult(call=call("probe"), pool="mean", method={}, results=results, **shared)

    def _run(self, out: Path, settings: Sequence[str]) -> Path:
        """Write a run whose accuracies are best at step 20."""
        folder = RunFolder(out)
        folder.best.mkdir(parents=True, exist_ok=True)
        folder.recipe.write_text("{}")
        validation, test = self.score(settings)
        (out / "test.json").write_text(json.dumps(test))
        values = [(0, "validation", 0.01), (20, "validation", validation), (30, "validation", validation / 2)]
        values.append((30, "test", test))
        lines = [
            json.dumps({"kind": "evaluation", "step": step, "split": split, "accuracy": accuracy})
            for step, split, accuracy in values
        ]
        folder.log.write_text("\n".join(lines) + "\n")
        return out
