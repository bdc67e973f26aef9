"""What a run records of itself is checked before it is used."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.recipes import registry
from isopix.runs.load import find_checkpoint
from isopix.runs.pretrain import train_recipe
from isopix.runs.training_log import RunObserver, decoder_fits, unigram_nats
from isopix.storage.checkpoint import load_checkpoint, save_checkpoint
from isopix.storage.run_folder import RunFolder

CPU = torch.device("cpu")
SMALL = ["depth=1", "width=16", "batch_size=16", "steps=4", "checkpoint_every=2", "num_colors=4", "limit=60"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    recipe = registry.resolve("igpt.digits", settings=SMALL).recipe
    train_recipe(recipe, out, device=CPU, observer=RunObserver())
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
    [damaged] = found.damaged
    assert reason in damaged.reason
    assert "\n" not in str(damaged)


BASELINES = [
    {"kind": "baselines", "step": 0, "held_out": "test", "nats": {"unigram": 9.0}},
    {"kind": "baselines", "step": 0, "held_out": "validation", "nats": {"other": 1.0, "unigram": 2.0}},
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
