"""Plugins: evaluators and recipes of a user's file, recorded with the runs that they are part of."""

import hashlib
import json
from functools import partial
from pathlib import Path

import pytest
import torch

from isopix.core import registry as parts
from isopix.core.registry import load_plugin
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.load import load_run
from isopix.runs.pretrain import train_recipe
from isopix.runs.resume import resume_run
from isopix.runs.training_log import RunObserver
from isopix.storage import log
from isopix.storage.provenance import with_provenance
from tests.registry import restored_registry

CPU = torch.device("cpu")
EVALUATOR = '''
from isopix.core.registry import register
from isopix.train.evaluator import EvaluatorSpec


@register("weight_norm")
class WeightNorm(EvaluatorSpec):
    """The length of all weights, times `scale`."""

    scale: float = 1.0

    def start(self, context):
        def evaluate(step):
            weights = context.task.module.parameters()
            return {"weight_norm": self.scale * sum(float(w.square().sum()) for w in weights) ** 0.5}

        return evaluate
'''
WORDS = [
    *("depth=1", "width=16", "steps=4", "batch_size=8", "log_every=2", "evaluate_every=3"),
    *("evaluate_images=20", "num_test_images=8", "checkpoint_every=2"),
]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def my_recipe(tmp_path: Path) -> Recipe:
    load_plugin(write(tmp_path / "norms.py", EVALUATOR))
    listed = "train.evaluators=[{kind: weight_norm, every: 2, scale: 2.0}]"
    return registry.resolve("igpt.digits", settings=[*WORDS, listed]).recipe


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_run_needs_its_plugin_and_with_a_corrected_one_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hashes are in the log, the new one in new checkpoints and in results, the old one in the run's."""
    asked = iter([False] * 3 + [True])
    stop = RunObserver(stop=lambda: next(asked, True))
    train_recipe(my_recipe(tmp_path), tmp_path / "run", device=CPU, observer=stop)
    with restored_registry():
        monkeypatch.setattr(parts, "_PLUGINS", {})
        message = r"this run uses evaluator weight_norm of plugin .*norms.py \(SHA-256 "
        for use in (load_run, partial(resume_run, observer=RunObserver())):
            with pytest.raises(ValueError, match=message):
                use(tmp_path / "run", device=CPU)
        del parts._KINDS["evaluator"]["weight_norm"]
        corrected = EVALUATOR.replace("** 0.5", "** 0.25")
        load_plugin(write(tmp_path / "norms.py", corrected))
        then, now = hashed(EVALUATOR), hashed(corrected)
        resume_run(tmp_path / "run", device=CPU, observer=RunObserver())
        text = f"norms.py has changed since the run: SHA-256 {then[:12]} then, {now[:12]} now"
        records = log.read_log(tmp_path / "run" / "log.jsonl")
        assert [record["text"].endswith(text) for record in records if record["kind"] == "note"] == [True]
        assert records[-1]["step"] == 4
        assert load_run(tmp_path / "run", device=CPU).changes == ()
        for path, expected in (
            ("environment.json", then),
            ("checkpoints/step-00000004/environment.json", now),
        ):
            [recorded] = json.loads((tmp_path / "run" / path).read_text())["plugins"]
            assert recorded["sha256"] == expected
        assert [each["sha256"] for each in with_provenance({})["plugins"]] == [now]
        older = min((tmp_path / "run" / "checkpoints").iterdir())
        [change] = load_run(older, device=CPU).changes
        assert change.endswith(text)
    monkeypatch.setattr(parts, "_PLUGINS", {})
    assert "plugins" not in with_provenance({})
