"""Verbs that train nothing: they write logs and records, and remember what they were asked."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from isopix.recipes.recipe import Recipe
from isopix.storage.run_folder import RunFolder

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
        record: Mapping[str, Any] = getattr(self, command.replace("-", "_"))(folder, options)
        path = folder / command / f"{options.get('data')}-{len(options)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))
        return path

    def evaluate(self, run: Path, options: Mapping[str, Any]) -> Mapping[str, Any]:
        test = json.loads((run / "test.json").read_text())
        return {"metrics": {"accuracy": test, "top5_accuracy": None, "ensemble": {"single_mask": test}}}

    def probe(self, run: Path, options: Mapping[str, Any]) -> Mapping[str, Any]:
        layer = {"test_accuracy": 0.25, "ensemble": {"single_mask": 0.2}}
        network = {"layers": [layer, {**layer, "test_accuracy": 0.75}], "best_index": 0}
        return {"network": {**network, "concat": {"score": layer}}, "refit": {"test_accuracy": 0.3}}

    def low_data(self, run: Path, options: Mapping[str, Any]) -> Mapping[str, Any]:
        results = [{"labels_per_class": count, "errors": [0.09, 0.1, 0.11]} for count in options["labels"]]
        return {"results": dict.fromkeys(("trained", "untrained", "raw pixels", "fine-tuned"), results)}

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
