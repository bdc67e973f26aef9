"""Fine-tuning: where it starts, when it stops, and which weights are tested."""

import json
from pathlib import Path

import pytest
import torch

import isopix
from isopix.core.types import Grid
from isopix.finetuning.config import FineTuneConfig
from isopix.model.positions import interpolate_pos_embed
from isopix.recipes import registry
from isopix.runs.load import load_run
from isopix.runs.pretrain import train_recipe
from isopix.runs.resume import resume_run
from isopix.runs.start import prepare_finetune
from isopix.runs.training_log import RunObserver
from isopix.storage import checkpoint, log

CPU = torch.device("cpu")
SMALL = ["depth=2", "width=16", "batch_size=16", "log_every=1", "evaluate_images=60", "num_test_images=60"]
QUICK = ["steps=12", "evaluate_every=2", "data.augment=none", "lr=0.01", "data.limit=200"]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "pre"
    recipe = registry.resolve("igpt.digits_bert", assignments=[*SMALL, "steps=4"]).recipe
    train_recipe(recipe, out, device=CPU, observer=RunObserver())
    return out


def finetuned(pretrained: Path, out: Path, *words: str) -> list[dict[str, object]]:
    """The records of the run."""
    recipe, initial = prepare_finetune(str(pretrained), settings=[*QUICK, *words])
    assert train_recipe(recipe, out, device=CPU, observer=RunObserver(), initial=initial).finished
    return list(log.read_log(out / "log.jsonl"))


def accuracies(records: list[dict[str, object]], split: str) -> dict[int, float]:
    return {each["step"]: each["accuracy"] for each in records if each.get("split") == split}


def test_it_starts_from_the_weights_of_the_run(pretrained: Path, tmp_path: Path) -> None:
    finetuned(pretrained, tmp_path / "ft", "steps=1", "checkpoint_every=1")
    first = checkpoint.load_checkpoint(tmp_path / "ft/checkpoints/step-00000000").tensors
    weights = load_run(pretrained, device=CPU).network.tensors()
    assert all(torch.equal(first["model"][name], tensor) for name, tensor in weights.items())
    assert not first["classifier"]["weight"].any()


def test_the_best_weights_are_saved_and_tested_once(pretrained: Path, tmp_path: Path) -> None:
    records = finetuned(pretrained, tmp_path / "ft", "lr=0.1", "mask_at_eval=false")
    seen = accuracies(records, "validation")
    step = max(seen, key=lambda each: (seen[each], -each))
    assert 0 < step < 12, "else the test shows nothing"
    assert checkpoint.load_checkpoint(tmp_path / "ft/best").records["state"]["step"] == step
    assert load_run(tmp_path / "ft", device=CPU).step == step
    tested = [each for each in records if each.get("split") == "test"]
    assert [(each["step"], each["last_step"]) for each in tested] == [(step, 12)]
    found = isopix.evaluate(tmp_path / "ft", device="cpu").metrics
    assert found.cross_entropy == pytest.approx(tested[0]["class_nats"], rel=1e-5)


def test_patience_ends_the_run_at_the_evaluation_that_exhausts_it(pretrained: Path, tmp_path: Path) -> None:
    """With a learning rate near zero nothing is better than the first evaluation."""
    records = finetuned(pretrained, tmp_path / "ft", "patience=2", "lr=1e-30")
    assert sorted(accuracies(records, "validation")) == [0, 2, 4]
    assert max(each["step"] for each in records) == 4
    assert [each["step"] for each in records if "not above chance level" in str(each.get("text"))] == [4]


@pytest.mark.parametrize(("weight", "layer"), [("0", "null"), ("0", "1"), ("1", "null")])
def test_without_a_generative_loss_none_is_logged_and_trained_parameters_are_counted(
    pretrained: Path, tmp_path: Path, weight: str, layer: str
) -> None:
    words = (f"generative_weight={weight}", f"layer={layer}", "steps=3", "checkpoint_every=3")
    evaluations = [each for each in finetuned(pretrained, tmp_path / "ft", *words) if "split" in each]
    assert all("class_nats" in each and "accuracy" in each for each in evaluations)
    assert {"loss_nats" in each for each in evaluations} == {weight == "1"}
    before, after = (
        checkpoint.load_checkpoint(tmp_path / f"ft/checkpoints/step-0000000{step}").tensors for step in (0, 3)
    )
    moved = sum(
        tensor.numel()
        for group in ("model", "classifier")
        for name, tensor in after[group].items()
        if not torch.equal(tensor, before[group][name])
    )
    environment = json.loads((tmp_path / "ft/environment.json").read_text())
    assert environment["trained_parameters"] == moved


def test_from_scratch_it_learns(tmp_path: Path) -> None:
    words = [
        *SMALL,
        "width=32",
        "steps=150",
        "evaluate_every=75",
        "data.augment=none",
        "generative_weight=0.1",
    ]
    assert train_recipe(
        prepare_finetune("igpt.digits", settings=words).recipe,
        tmp_path / "ft",
        device=CPU,
        observer=RunObserver(),
    ).finished
    records = list(log.read_log(tmp_path / "ft/log.jsonl"))
    assert accuracies(records, "test")[150] > 0.5
    text = [each["text"] for each in records if each["kind"] == "note"]
    assert not any("chance level" in each for each in text)


def test_a_run_out_of_patience_is_finished_and_stays_so(pretrained: Path, tmp_path: Path) -> None:
    words = ("patience=1", "lr=1e-30")
    records = finetuned(pretrained, tmp_path / "ft", *words)
    again = resume_run(tmp_path / "ft", device=CPU, observer=RunObserver())
    assert again.finished
    assert again.step == 2
    assert list(log.read_log(tmp_path / "ft/log.jsonl")) == records


def test_a_fine_tuned_run_is_fine_tuned_again_at_its_own_learning_rate_with_all_labels(
    pretrained: Path, tmp_path: Path
) -> None:
    finetuned(pretrained, tmp_path / "ft", "data.labels_per_class=4", "data.subset=1")
    first, second = prepare_finetune(str(pretrained)).recipe, prepare_finetune(str(tmp_path / "ft")).recipe
    assert first.train.optimizer.lr == 0.0003
    assert second.train.optimizer.lr == 0.01
    assert (second.data.labels_per_class, second.data.subset) == (None, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["layer=3"], "finetune.layer 3 does not exist; allowed: 0 to 2"),
        (["width=32"], "the weights have model.width=16, not 32; only the same network can start"),
        (["objective=autoregressive"], 'objective.kind="masked", not "autoregressive"'),
        (["generative_wieght=1"], "did you mean 'finetune.generative_weight'"),
    ],
)
def test_the_network_is_that_of_the_run(pretrained: Path, words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare_finetune(str(pretrained), settings=words)


def test_a_vision_transformer_is_fine_tuned_on_whole_images() -> None:
    """ViT section 3.2; without its decoder."""
    expected = FineTuneConfig(generative_weight=0.0, pool="first", mask_ratio=0.0, mask_at_eval=False)
    assert prepare_finetune("vit.tiny").recipe.finetune == expected


PATCHES = ["data.source=digits", "data.size=32", "depth=1", "width=16", "steps=1", "batch_size=8"]
UNSEEN = ["evaluate_images=8", "num_test_images=0", "data.limit=60"]


def in_patches(name: str, out: Path, *words: str) -> str:
    """A run of one step."""
    train_recipe(
        registry.resolve(name, assignments=[*PATCHES, *UNSEEN, *words]).recipe,
        out,
        device=CPU,
        observer=RunObserver(),
    )
    return str(out)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_positions_are_interpolated_as_the_saved_recipe_says(mode: str, tmp_path: Path) -> None:
    run = in_patches("vit.tiny", tmp_path / "pre")
    words = ["data.size=48", f"interpolation={mode}", "data.limit=60", "steps=1", "batch_size=8"]
    recipe, initial = prepare_finetune(run, settings=[*words, *UNSEEN[:2]])
    name = "backbone.positions.table"
    small = load_run(Path(run), device=CPU).network.tensors()[name]
    large = interpolate_pos_embed(small, Grid(4, 4), Grid(6, 6), mode)
    assert torch.equal(initial.network.tensors()[name], large)
    assert not torch.equal(large, interpolate_pos_embed(small, Grid(4, 4), Grid(6, 6), other(mode)))
    train_recipe(recipe, tmp_path / "ft", device=CPU, observer=RunObserver(), initial=initial)
    again = load_run(tmp_path / "ft", device=CPU)
    assert (again.recipe.finetune.interpolation, again.recipe.grid) == (mode, Grid(6, 6))


def other(mode: str) -> str:
    return "bicubic" if mode == "bilinear" else "bilinear"
