"""What a run records of itself is checked before it is used, and its plugins with it."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from isopix.core import registry as parts
from isopix.core.registry import load_plugin
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.reporting.run_record import read_run
from isopix.runs.load import find_checkpoint, load_run
from isopix.runs.training_log import RunObserver, decoder_fits, unigram_nats
from isopix.storage.cache import default_cache
from isopix.storage.checkpoint import load_checkpoint, save_checkpoint
from isopix.storage.provenance import with_provenance
from isopix.storage.run_folder import RunFolder
from tests.registry import restored_registry
from tests.trained import CPU, StopAt, logged, resume, train

SMALL = ["depth=1", "width=16", "batch_size=16", "steps=4", "checkpoint_every=2", "num_colors=4", "limit=60"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    train("igpt.digits", out, *SMALL)
    return out


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def rewrite(run: Path, change: Callable[[Any], None]) -> None:
    """Change the newest checkpoint, so that its hashes are right."""
    newest = max((run / "checkpoints").iterdir())
    found = load_checkpoint(newest)
    change(found)
    save_checkpoint(newest, found.tensors, found.records)


CHANGES: dict[str, tuple[Callable[[Any], None], str]] = {
    "wrong type": (lambda found: found.records["state"].update(step="a"), "step is 'a'"),
    "other palette": (lambda found: found.records["state"].update(codec="0" * 64), "not palette 000000"),
    "wrong recipe": (lambda found: found.records["recipe"]["model"].update(depth="a"), "model.depth is 'a'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_checkpoint_of_wrong_content_is_named_and_the_one_before_is_taken(run: Path, name: str) -> None:
    change, reason = CHANGES[name]
    rewrite(run, change)
    found = find_checkpoint(run)
    assert found.state.step == 2
    [note] = found.skipped
    assert reason in note
    assert "\n" not in note


def test_any_number_of_damaged_checkpoints_has_one_note(run: Path) -> None:
    for step in range(90, 99):
        (run / f"checkpoints/step-000000{step}").mkdir()
    resume(run)
    [note] = [each["text"] for each in logged(run, kind="note")]
    assert note.endswith("step-00000098: manifest.json is missing, and 8 older ones")
    assert load_run(run, device=CPU).warnings == (note,)


BASELINE = {"kind": "baselines", "step": 0, "modes": [0]}
BASELINES = [
    {**BASELINE, "held_out": "test", "nats": {"unigram": 9.0}},
    {**BASELINE, "held_out": "validation", "nats": {"other": 1.0, "unigram": 2.0}},
]


def validated(step: int, loss: float, **changes: Any) -> dict[str, Any]:
    return {"kind": "evaluation", "step": step, "split": "validation", "loss_nats": loss, **changes}


@pytest.mark.parametrize(
    ("records", "fits"),
    [
        ([*BASELINES, validated(1, 1.99)], True),
        ([*BASELINES, validated(1, 2.0)], False),
        ([*BASELINES, validated(1, 1.0), validated(2, 3.0)], False),
        ([*BASELINES, validated(1, 3.0), validated(2, 1.0, split="test")], False),
        ([*BASELINES], False),
        ([BASELINES[0], validated(1, 1.0)], False),
        ([*BASELINES, {"kind": "evaluation", "step": 1, "split": "validation", "class_nats": 0.1}], False),
    ],
)
def test_a_decoder_fits_once_the_last_validation_loss_is_below_the_unigram_baseline(
    tmp_path: Path, records: list[Any], fits: bool
) -> None:
    run, recipe = RunFolder(tmp_path), registry.find("igpt.digits", "no recipe")
    run.log.write_text("".join(json.dumps(each) + "\n" for each in records))
    assert decoder_fits(recipe, 5, run, initially=False) == fits
    assert decoder_fits(recipe, 5, run, initially=True)
    assert not decoder_fits(recipe, 0, run, initially=False)
    assert (unigram_nats(records) is None) == (BASELINES[1] not in records)


EXAMPLE = Path(__file__).parents[3] / "examples/extend/accuracy_evaluator.py"
WORDS = [
    *("depth=1", "width=16", "steps=4", "batch_size=8", "log_every=2", "evaluate_every=3"),
    *("evaluate_images=20", "num_test_images=8", "checkpoint_every=2"),
]


def my_recipe(tmp_path: Path) -> Recipe:
    load_plugin(Path(shutil.copy(EXAMPLE, tmp_path)))
    listed = "train.evaluators=[{kind: code_accuracy, every: 2}]"
    return registry.resolve("igpt.digits", settings=[*WORDS, listed]).recipe


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("changed", [None, "content", "path", "note", "owner"])
def test_a_run_loads_a_plugin_that_its_user_has_trained_with_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str | None
) -> None:
    """Neither a changed file, nor a copy that a stranger's record may have, nor what another user noted."""
    plugin = tmp_path / EXAMPLE.name
    with restored_registry():
        train(my_recipe(tmp_path), tmp_path / "run", observer=RunObserver(stop=StopAt(4)))
    if changed == "content":
        plugin.write_text(plugin.read_text() + "# changed")
    if changed == "path":
        copy = str(plugin.rename(tmp_path / "copy.py"))
        rewrite(tmp_path / "run", lambda found: found.records["environment"]["plugins"][0].update(path=copy))
    if changed == "note":
        shutil.rmtree(default_cache() / "plugins")
    if changed == "owner":
        monkeypatch.setattr(os, "getuid", lambda: -1)
    with restored_registry():
        monkeypatch.setattr(parts, "_PLUGINS", {})
        parts._KINDS["evaluator"].pop("code_accuracy", None)
        if changed:
            since = ", which has changed since" * (changed == "content")
            message = rf"this run uses evaluator code_accuracy of plugin .*\){since}; load it"
            with pytest.raises(ValueError, match=message):
                load_run(tmp_path / "run", device=CPU)
        else:
            assert read_run(RunFolder(tmp_path / "run")).recipe is not None
            assert load_run(tmp_path / "run", device=CPU).warnings == ()


def test_a_run_needs_its_plugin_and_with_a_corrected_one_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hashes are in the log, the new one in new checkpoints and in results, the old one in the run's."""
    train(my_recipe(tmp_path), tmp_path / "run", observer=RunObserver(stop=StopAt(4)))
    shutil.rmtree(default_cache() / "plugins")
    with restored_registry():
        monkeypatch.setattr(parts, "_PLUGINS", {})
        message = r"this run uses evaluator code_accuracy of plugin .*evaluator.py \(SHA-256 "
        for use in (partial(load_run, device=CPU), resume):
            with pytest.raises(ValueError, match=message):
                use(tmp_path / "run")
        del parts._KINDS["evaluator"]["code_accuracy"]
        plugin = tmp_path / EXAMPLE.name
        plugin.write_text(EXAMPLE.read_text() + "# corrected\n")
        load_plugin(plugin)
        then, now = (hashed(each.read_text()) for each in (EXAMPLE, plugin))
        resume(tmp_path / "run")
        text = f"{EXAMPLE.name} has changed since the run: SHA-256 {then[:12]} then, {now[:12]} now"
        assert [each["text"].endswith(text) for each in logged(tmp_path / "run", kind="note")] == [True]
        assert logged(tmp_path / "run")[-1]["step"] == 4
        assert load_run(tmp_path / "run", device=CPU).warnings == ()
        for path, expected in (
            ("environment.json", then),
            ("checkpoints/step-00000004/environment.json", now),
        ):
            [recorded] = json.loads((tmp_path / "run" / path).read_text())["plugins"]
            assert recorded["sha256"] == expected
        assert [each["sha256"] for each in with_provenance({})["plugins"]] == [now]
        older = min((tmp_path / "run" / "checkpoints").iterdir())
        [change] = load_run(older, device=CPU).warnings
        assert change.endswith(text)
    monkeypatch.setattr(parts, "_PLUGINS", {})
    assert "plugins" not in with_provenance({})
