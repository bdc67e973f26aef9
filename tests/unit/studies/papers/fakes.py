"""Commands that train nothing: they write logs and records, and remember what they were asked."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from isopix.recipes.recipe import Recipe
from isopix.storage.run_folder import RunFolder

Score = Callable[[Sequence[str]], tuple[float, float]]  # validation and test accuracy by the settings


def half(settings: Sequence[str]) -> tuple[float, float]:
    return 0.5, 0.5


class FakeCommands:
    """Fine-tuned runs have the accuracies of `score`; the accuracy on test is that of the run evaluated."""

    def __init__(self, score: Score = half):
        self.score, self.calls = score, list[tuple[str, Path, tuple[str, ...]]]()

    def train(self, recipe: Recipe, out: Path) -> Path:
        self.calls.append(("train", out, ()))
        return self._run(out, ())

    def finetune(self, run: Path, out: Path, settings: Sequence[str]) -> Path:
        self.calls.append(("finetune", out, tuple(settings)))
        return self._run(out, settings)

    def evaluate(self, run: Path, mask_ensemble: int | None) -> Path:
        self.calls.append(("evaluate", run, ()))
        test = json.loads((run / "test.json").read_text())
        record = {"accuracy": test, "top5_accuracy": None, "ensemble": {"single_mask": test}}
        return self._write(run / "evaluations" / "evaluate.json", {"metrics": record})

    def probe(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        self.calls.append(("probe", run, tuple(options)))
        layer = {"test_accuracy": 0.25, "ensemble": {"single_mask": 0.2}}
        network = {"layers": [layer, {**layer, "test_accuracy": 0.75}], "best_index": 0}
        record = {"network": {**network, "concat": {"score": layer}}, "refit": {"test_accuracy": 0.3}}
        return self._write(run / "probes" / f"probe-{data}.json", record)

    def low_data(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        self.calls.append(("low_data", run, tuple(options)))
        results = [{"labels_per_class": count, "errors": [0.09, 0.1, 0.11]} for count in options["labels"]]
        methods = dict.fromkeys(("trained", "untrained", "raw pixels", "fine-tuned"), results)
        return self._write(run / "low-data" / f"{len(results)}.json", {"results": methods})

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

    def _write(self, path: Path, record: Mapping[str, Any]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))
        return path
