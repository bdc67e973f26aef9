"""Content with the right hashes that is not that of the recipe: named, in one line, before it is used."""

import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.api.training import finetune, pretrain, resume
from isopix.runs.load import find_checkpoint, load_finetuned, newest_checkpoint
from isopix.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from isopix.storage.log import read_log
from tests.unit.data.refusal import refusal

QUICK = ["steps=4", "batch_size=8", "checkpoint_every=2", "evaluate_every=2", "evaluate_images=8"]
Change = Callable[[Checkpoint], Any]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-trained and a fine-tuned run."""
    folder = tmp_path_factory.mktemp("runs")
    small = ["depth=2", "width=16", *QUICK]
    pretrain("igpt.digits", data="digits", limit=40, out=folder / "pre", overrides=small)
    finetune(folder / "pre", out=folder / "tuned", limit=40, overrides=QUICK)
    return folder


def changed(run: Path, change: Change) -> Path:
    """Change the newest checkpoint of a run, with the right hashes."""
    path = newest_checkpoint(run)
    found = load_checkpoint(path)
    change(found)
    save_checkpoint(path, found.tensors, found.records)
    return path


def setting(*path: str, value: object) -> Change:
    def change(found: Checkpoint) -> None:
        *parents, last = path
        values: Any = found.records["recipe"]
        for each in parents:
            values = values[each]
        values[last] = value

    return change


def tensor(group: str, name: str, value: torch.Tensor) -> Change:
    return lambda found: found.tensors[group].update({name: value})


def number(group: str, name: str, value: float) -> Change:
    return lambda found: found.tensors[group][name].view(-1)[:1].fill_(value)


def state(**values: object) -> Change:
    return lambda found: found.records["state"].update(values)


NORM, COLORS = "backbone.norm.weight", "codec.color_bits"
MOMENT = "network.backbone.norm.weight/exp_avg"
LARGE = "model.safetensors: the network has more than"
CHANGES: list[tuple[Change, str]] = [
    (lambda it: it.tensors["model"].pop(NORM), f"model.safetensors: tensor '{NORM}' is missing"),
    (tensor("model", "x", torch.ones(1)), "model.safetensors: tensor 'x' is not in this model"),
    (tensor("model", NORM, torch.ones(17)), f"model.safetensors: tensor '{NORM}' has shape (17,)"),
    (tensor("model", NORM, torch.ones(16).int()), "has type torch.int32; allowed: torch.float32"),
    (number("model", NORM, torch.nan), f"tensor '{NORM}' has numbers that are not finite"),
    (tensor("model", COLORS, torch.ones(3, 4).int()), f"tensor '{COLORS}' has shape (3, 4)"),
    (
        lambda it: it.tensors["model"].update({COLORS: it.tensors["model"][COLORS].long()}),
        "has type torch.int64; allowed: torch.int32",
    ),
    (number("model", COLORS, -1), "model.safetensors: palette values range from nan"),
    (state(codec="0" * 64), "is not palette 000000000000"),
    (tensor("optimizer", MOMENT, torch.ones(9)), f"optimizer.safetensors: tensor '{MOMENT}' has shape (9,)"),
    (tensor("optimizer", MOMENT, torch.ones(16).double()), "has type torch.float64; allowed: torch.float32"),
    (number("optimizer", MOMENT, torch.inf), f"tensor '{MOMENT}' has numbers that are not finite"),
    (state(step="4"), "state.json: 'step' is '4'"),
    (state(codec=[]), "state.json: 'codec' is []"),
    (lambda it: it.records["state"].pop("data"), "state.json has no 'data'"),
    (lambda it: it.records["environment"].update(plugins={}), "environment.json: 'plugins' is {}"),
    (lambda it: it.records.pop("recipe"), "recipe.json is missing"),
    (setting("model", "depth", value=10**9), "recipe.json: model: depth is 1000000000; allowed: 1 to 1024"),
    (setting("model", "width", value=10**9), "recipe.json: model: width is 1000000000; allowed: 1 to 65536"),
    (setting("model", "width", value="16.5"), "recipe.json: model.width is '16.5'"),
    (setting("model", "depth", value=1024), LARGE),
    (setting("model", "width", value=65_536), LARGE),
    (setting("model", "block", "mlp", "expansion", value=65_536), LARGE),
    (setting("data", "rows", value=10**9), "recipe.json: data: rows is 1000000000; allowed: 1 to 1024"),
    (setting("data", "rows", value=1024), "model.safetensors: tensor 'backbone.positions"),
    (setting("model", "depth", value=3), "model.safetensors: tensor 'backbone.blocks.2"),
]


@pytest.mark.parametrize(("change", "line"), CHANGES, ids=[line[-40:] for _, line in CHANGES])
def test_wrong_content_is_named_and_the_previous_checkpoint_used(
    trained: Path, tmp_path: Path, change: Change, line: str
) -> None:
    run = Path(shutil.copytree(trained / "pre", tmp_path / "pre"))
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = changed(run, change)
    found, [damaged] = find_checkpoint(run)
    assert found.records["state"]["step"] == 2
    assert damaged.startswith(f"checkpoint {path}: ")
    assert line in damaged
    assert "\n" not in damaged
    assert refusal(find_checkpoint, path) == damaged
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB
    assert time.monotonic() - start < 10


CLASSIFIER: list[tuple[Change, str]] = [
    (lambda it: it.tensors["classifier"].update(weight=torch.ones(9, 16)), "has shape (9, 16)"),
    (lambda it: it.tensors["classifier"]["weight"].fill_(torch.nan), "not finite"),
    (lambda it: it.records["state"].update(classes=["a"]), "has shape (10, 16)"),
    (lambda it: it.tensors.pop("classifier"), "classifier.safetensors: the file is missing"),
]


@pytest.mark.parametrize(("change", "line"), CLASSIFIER, ids=[line for _, line in CLASSIFIER])
def test_a_wrong_class_head_is_named(trained: Path, tmp_path: Path, change: Change, line: str) -> None:
    run = Path(shutil.copytree(trained / "tuned", tmp_path / "tuned"))
    changed(run, change)
    _, [damaged] = find_checkpoint(run)
    assert "classifier.safetensors: " in damaged
    assert line in damaged


def test_a_run_without_its_class_head_cannot_classify(trained: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained / "tuned", tmp_path / "tuned"))
    best = load_checkpoint(run / "best")
    del best.tensors["classifier"]
    save_checkpoint(run / "best", best.tensors, best.records)
    assert "classifier.safetensors is missing" in refusal(
        lambda: load_finetuned(run, device=torch.device("cpu"))
    )


def test_resume_notes_the_damage_and_prunes_what_a_kill_left(trained: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained / "pre", tmp_path / "pre"))
    changed(run, lambda it: it.tensors["model"]["backbone.norm.weight"].fill_(torch.nan))
    checkpoints = run / "checkpoints"
    oldest = load_checkpoint(checkpoints / "step-00000002")
    oldest.records["state"]["step"] = 1
    save_checkpoint(checkpoints / "step-00000001", oldest.tensors, oldest.records)
    resume(run)
    [note] = [each["text"] for each in read_log(run / "log.jsonl") if "skipped" in each.get("text", "")]
    assert "model.safetensors: tensor 'backbone.norm.weight' has numbers that are not finite" in note
    assert sorted(each.name for each in checkpoints.iterdir()) == ["step-00000002", "step-00000004"]
