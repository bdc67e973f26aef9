"""Training from the weights of a run, and with moved images: where it starts, and what may differ."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import isopix
from isopix.data.load import load_dataset
from isopix.probing.config import FewLabelsConfig
from isopix.probing.low_data import label_subsets
from isopix.runs.load import LoadedRun, load_run
from isopix.runs.series import finetune_low_data, prepare_low_data
from isopix.runs.start import TrainingStart, prepare_pretrain
from isopix.storage.atomic import read_json
from isopix.storage.checkpoint import load_checkpoint
from isopix.storage.run_folder import RunFolder
from tests.trained import CPU, logged, train
from tests.unit.data.refusal import refusal

SMALL = [
    *("depth=2", "width=16", "batch_size=16", "log_every=1", "evaluate_every=2", "checkpoint_every=1"),
    *("evaluate_images=60", "num_test_images=60", "data.limit=200"),
]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "first"
    return train("igpt.digits", out, *SMALL, "steps=4").run.path


def test_it_starts_with_the_last_loss_of_the_run_and_a_new_optimizer(first: Path, tmp_path: Path) -> None:
    assert train(prepare_pretrain(None, ["steps=1"], weights=first), tmp_path / "second").finished
    [start, _], [*_, end] = (logged(run, split="validation") for run in (tmp_path / "second", first))
    assert (start["step"], end["step"]) == (0, 4)
    assert start["loss_nats"] == end["loss_nats"]
    saved = load_checkpoint(tmp_path / "second/checkpoints/step-00000000").tensors
    weights = load_run(first, device=CPU).network.tensors()
    assert all(torch.equal(saved["model"][name], tensor) for name, tensor in weights.items())
    assert not any(tensor.any() for name, tensor in saved["optimizer"].items() if "exp_avg" in name)


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


FEW = FewLabelsConfig(labels=(1, 3), subsets=2, finetune_steps=1)


@pytest.fixture
def loaded(first: Path) -> LoadedRun:
    found = load_run(first, device=CPU)
    found.network.eval()
    return found


def start_of(first: Path, loaded: LoadedRun, *words: str) -> TrainingStart:
    return prepare_low_data(RunFolder(first), ("data.augment=none", *words), FEW, loaded.recipe.data, 180)


def folder_of(out: Path, labels: int, subset: int) -> Path:
    [folder] = out.glob(f"*/labels-{labels}-subset-{subset}")
    return folder


def test_fine_tuning_learns_from_the_same_subsets(first: Path, loaded: LoadedRun, tmp_path: Path) -> None:
    data = load_dataset(loaded.recipe.data)
    subsets = label_subsets(data.train.labels, (1, 3), 2, loaded.recipe.train.seed)
    start, weights = start_of(first, loaded), loaded.network.tensors()
    [one, three] = finetune_low_data(start, FEW, tmp_path, CPU)
    assert (one.num_train_images, three.num_train_images) == (10, 30)
    assert one.num_test_images == len(data.test) == 180
    for count, drawn in subsets.items():
        for number, index in enumerate(drawn):
            recipe = load_run(folder_of(tmp_path, count, number), device=CPU).recipe
            subset = load_dataset(recipe.data).train
            start_step = load_checkpoint(folder_of(tmp_path, count, number) / "checkpoints/step-00000000")
            assert all(torch.equal(start_step.tensors["model"][name], each) for name, each in weights.items())
            assert torch.equal(subset.images, data.train.images[index])
    assert finetune_low_data(start, FEW, tmp_path, CPU) == (one, three)
    kept = read_json(folder_of(tmp_path, 1, 0) / "environment.json")["pretrained"]
    assert kept == {"run": str(first), "step": 4}


def test_runs_of_other_settings_or_of_another_step_are_not_taken_for_these(
    first: Path, loaded: LoadedRun, tmp_path: Path
) -> None:
    one = replace(FEW, labels=(1,), subsets=1)
    start = start_of(first, loaded)
    finetune_low_data(start, one, tmp_path, CPU)
    earlier = start._replace(provenance={"pretrained": {"run": str(first), "step": 1}})
    for other in (start_of(first, loaded, "batch_size=4"), earlier):
        before = set(tmp_path.iterdir())
        finetune_low_data(other, one, tmp_path, CPU)
        assert len(set(tmp_path.iterdir()) - before) == 1


def test_the_images_are_those_that_are_probed(first: Path, loaded: LoadedRun) -> None:
    with pytest.raises(ValueError, match="cannot be set here: fine-tuning uses the images"):
        start_of(first, loaded, "data.limit=20")


TINY = ["depth=1", "width=16", "rows=8", "cols=8", "codec.num_colors=8", "batch_size=4", "steps=2"]


def test_a_run_resumes_where_its_images_are_and_with_no_others(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 20, 8, 8, 3), dtype=np.uint8)
    run, before, after, other = (tmp_path / name for name in ("run", "before.npz", "after.npz", "other.npz"))
    for path, own in ((before, images[0]), (other, images[1])):
        np.savez(path, x_train=own, y_train=np.arange(20) % 2)
    train("igpt.digits", run, *TINY, "checkpoint_every=1", "evaluate_every=1", f"source={before}")
    last = run / "checkpoints/step-00000002/model.safetensors"
    weights = last.read_bytes()
    shutil.rmtree(last.parent)  # as if it had been interrupted after step 1
    before.rename(after)
    for call in (isopix.resume, isopix.evaluate, isopix.probe):
        assert refusal(call, run) == f"the images of this run are not at {before}; give --data PATH"
    line = refusal(lambda: isopix.resume(run, data=other, device="cpu"))
    given = f"the images of '{other}', or their names or splits"
    assert line.startswith(f"{given}, are not those of run {run}: fingerprint ")
    assert isopix.resume(run, data=after, device="cpu").finished
    assert last.read_bytes() == weights
    assert f"the images of {before} are now at {after}" in [each["text"] for each in logged(run, kind="note")]
    assert isopix.resume(run, device="cpu").finished
