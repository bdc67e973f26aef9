"""Pre-training from the weights of a run: where it starts, what may differ, and what it remembers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import isopix
from isopix.data.dataset import load_dataset
from isopix.recipes import registry
from isopix.runs.load import load_run
from isopix.runs.pretrain import train_recipe
from isopix.runs.start import prepare_pretrain
from isopix.runs.training_log import RunObserver
from isopix.storage import checkpoint, log

CPU = torch.device("cpu")
SMALL = [
    *("depth=2", "width=16", "batch_size=16", "log_every=1", "evaluate_every=2", "checkpoint_every=1"),
    *("evaluate_images=60", "num_test_images=60", "data.limit=200"),
]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "first"
    recipe = registry.resolve("igpt.digits", assignments=[*SMALL, "steps=4"]).recipe
    train_recipe(recipe, out, device=CPU, observer=RunObserver())
    return out


def continued(first: Path, out: Path, *words: str) -> list[dict[str, object]]:
    recipe, initial = prepare_pretrain(None, words, weights=first)
    assert train_recipe(recipe, out, device=CPU, observer=RunObserver(), initial=initial).finished
    return list(log.read_log(out / "log.jsonl"))


def validation(records: list[dict[str, object]]) -> dict[int, object]:
    return {each["step"]: each["loss_nats"] for each in records if each.get("split") == "validation"}


def test_it_starts_with_the_last_loss_of_the_run_and_a_new_optimizer(first: Path, tmp_path: Path) -> None:
    records = continued(first, tmp_path / "second", "steps=1")
    assert validation(records)[0] == validation(log.read_log(first / "log.jsonl"))[4]
    start = checkpoint.load_checkpoint(tmp_path / "second/checkpoints/step-00000000").tensors
    weights = load_run(first, device=CPU).network.tensors()
    assert all(torch.equal(start["model"][name], tensor) for name, tensor in weights.items())
    assert not any(tensor.any() for name, tensor in start["optimizer"].items() if "exp_avg" in name)


def test_test_images_that_the_first_run_has_trained_on_are_left_out(first: Path, tmp_path: Path) -> None:
    """The folder's test images are digits, of which the first run has seen 200."""
    images, labels = load_digits(return_X_y=True)
    pixels = np.repeat(np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1), 3, -1)
    parts = {"x_train": pixels[:300], "y_train": labels[:300], "x_test": pixels[300:]}
    np.savez(tmp_path / "digits.npz", **parts, y_test=labels[300:])
    words = ["steps=1", f"data.source={tmp_path / 'digits.npz'}", "data.limit=null"]
    records = continued(first, tmp_path / "second", *words)
    notes = [str(each["text"]) for each in records if "left out" in str(each.get("text"))]
    data = load_dataset(load_run(first, device=CPU).recipe.data)
    seen = {row.tobytes() for row in data.train.images.numpy()}
    copies = sum(np.moveaxis(row, -1, 0).tobytes() in seen for row in pixels[300:])
    assert 0 < copies <= 200
    assert len(notes) == 1
    assert notes[0].startswith(f"{copies} of 1,497 test images")


@pytest.mark.parametrize(
    ("recipe", "words", "message"),
    [
        ("igpt.digits", [], "have model.depth=2, not 4; model.width=16, not 64; only"),
        ("igpt.digits_bert", SMALL, 'have objective.kind="autoregressive", not "masked"'),
    ],
)
def test_another_network_is_refused(first: Path, recipe: str | None, words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare_pretrain(recipe, words, weights=first)


def test_a_fine_tuned_run_needs_the_name_of_a_recipe(first: Path, tmp_path: Path) -> None:
    words = [*SMALL, "steps=2", "data.augment=none"]
    isopix.finetune(first, *words[6:], out=tmp_path / "tuned", device="cpu")
    with pytest.raises(ValueError, match="is fine-tuned; name the recipe of pre-training"):
        prepare_pretrain(None, weights=tmp_path / "tuned")
    prepare_pretrain("igpt.digits", ["depth=2", "width=16"], weights=tmp_path / "tuned")
