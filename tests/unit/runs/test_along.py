"""Probes along training see no test image, leave no trace in the weights, and are made again by a resume."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.data.dataset import load as load_images
from isopix.model.network import Network
from isopix.probe.features import extract
from isopix.probe.probe import Split, Splits
from isopix.probe.probe import probe as fit
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.report.load_run import gather
from isopix.runs import along
from isopix.runs.load import load
from isopix.runs.pretrain import Watch, resume, start
from isopix.storage import checkpoint, log
from isopix.storage.run_folder import RunFolder
from isopix.train.throughput import Meter

CPU = torch.device("cpu")
WORDS = [
    *("depth=1", "width=16", "steps=12", "batch_size=16", "log_every=1", "evaluate_every=5"),
    *("evaluate_images=40", "checkpoint_every=4", "data.limit=90", "probe_every=5"),
]
RECIPE = registry.resolve("igpt.digits_bert", assignments=WORDS).recipe


def run(recipe: Recipe, out: Path) -> RunFolder:
    start(recipe, out, device=CPU, watch=Watch())
    return RunFolder(out)


def state(folder: RunFolder) -> dict[str, torch.Tensor]:
    found = checkpoint.newest(folder.checkpoints).checkpoint
    assert found is not None
    return {
        f"{group}/{name}": tensor for group, named in found.tensors.items() for name, tensor in named.items()
    }


def records(folder: RunFolder, kind: str) -> list[dict[str, object]]:
    return [record for record in log.read(folder.log) if record["kind"] == kind]


def files(folder: RunFolder) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.along.iterdir())}


@pytest.fixture(scope="module", autouse=True)
def _quick_fits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(along, "PROTOCOL", replace(along.PROTOCOL, strengths=(0.1, 1.0), resamples=10))
        yield


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(RECIPE, tmp_path_factory.mktemp("along") / "run")


def test_it_is_made_before_the_first_step_every_so_many_and_after_the_last(probed: RunFolder) -> None:
    assert [record["step"] for record in records(probed, "probe")] == [0, 5, 10, 12]
    assert list(files(probed)) == [f"step-{step:08d}.json" for step in (0, 5, 10, 12)]


def test_each_has_the_validation_loss_of_its_step(tmp_path: Path) -> None:
    folder = run(
        RECIPE.updated(
            evaluate_every=7,
        ),
        tmp_path / "run",
    )
    assert [record["step"] for record in records(folder, "evaluation")] == [0, 5, 7, 10, 12, 12]


def test_training_is_the_same_with_and_without(probed: RunFolder, tmp_path: Path) -> None:
    alone = run(
        RECIPE.updated(
            probe_every=0,
        ),
        tmp_path / "run",
    )
    ours, theirs = state(probed), state(alone)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for kind in ("train", "evaluation"):
        losses = [[record["loss_nats"] for record in records(each, kind)] for each in (probed, alone)]
        assert losses[0] == losses[1]
    assert not alone.along.exists()


@pytest.mark.parametrize("stop", [5, 7])
def test_a_run_that_was_stopped_ends_with_the_same_probes(
    probed: RunFolder, tmp_path: Path, stop: int
) -> None:
    asked = iter([False] * (stop - 1) + [True])
    start(RECIPE, tmp_path / "run", device=CPU, watch=Watch(stop=lambda: next(asked)))
    folder = RunFolder(tmp_path / "run")
    stray = folder.along / "step-00000099.json"
    stray.write_text("{}")  # as a killed process leaves that was ahead of its last checkpoint
    resume(folder.path, device=CPU, watch=Watch())
    assert files(folder) == files(probed)
    assert records(folder, "probe") == records(probed, "probe")


def test_the_accuracy_is_that_of_the_networks_features_on_the_images_that_it_says(probed: RunFolder) -> None:
    data, network = load_images(RECIPE.data, seed=RECIPE.train.seed), load(probed.path, device=CPU).network
    parts = {
        "train": (data.train.images, data.train.labels),
        "validation": (data.validation.images[:45], data.validation.labels[:45]),
        "test": (data.validation.images[45:90], data.validation.labels[45:90]),
    }
    splits = Splits(
        **{name: Split(extract(network.backbone, images), labels) for name, (images, labels) in parts.items()}
    )
    found = fit(splits, along.PROTOCOL, device=CPU)
    last = records(probed, "probe")[-1]
    assert (last["layer"], last["images"]) == (found.best, 45)
    assert last["accuracy"] == pytest.approx(found.score.test)
    kept = json.loads(files(probed)["step-00000012.json"])
    assert [score["accuracy"] for score in kept["layers"]] == [score.test for score in found.layers]


def test_the_test_images_are_not_looked_at(
    probed: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(backbone, images, **settings):
        seen.append(images)
        return extract(backbone, images, **settings)

    monkeypatch.setattr(along, "extract", spy)
    data = load_images(RECIPE.data, seed=RECIPE.train.seed)
    network = load(probed.path, device=CPU).network
    along.probe(RunFolder.create(tmp_path / "run"), 3, network, data, precision="fp32")
    assert torch.equal(torch.cat(seen), torch.cat([data.train.images, data.validation.images]))


@pytest.mark.parametrize("training", [True, False])
def test_the_network_is_left_as_it_was(
    probed: RunFolder, tmp_path: Path, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    monkeypatch.setattr(along, "extract", lambda *given, **settings: modes.append(network.training) or fail())
    network: Network = load(probed.path, device=CPU).network.train(training)
    data = load_images(RECIPE.data, seed=RECIPE.train.seed)
    told = along.probe(RunFolder.create(tmp_path / "run"), 3, network, data, precision="fp32")
    assert modes == [False]
    assert network.training == training
    assert told == {"kind": "note", "step": 3, "text": "no probe at step 3: it did not converge"}


def fail() -> None:
    raise RuntimeError("it did not converge\nand more")


def test_the_report_does_not_take_them_for_the_papers_probe(probed: RunFolder) -> None:
    found = gather(probed)
    assert found.probes == []
    assert found.probe is None
    assert found.unreadable == []


def test_probing_is_not_counted_as_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def slow(*given: object, **settings: object) -> dict[str, object]:
        clock[0] += 1000
        return {"kind": "note", "step": 0, "text": ""}

    monkeypatch.setattr("isopix.train.throughput.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(along, "probe", slow)
    tick = Meter.tick

    def step(self: Meter) -> None:
        clock[0] += 1
        tick(self)

    monkeypatch.setattr(Meter, "tick", step)
    folder = run(RECIPE, tmp_path / "run")
    assert [record["seconds"] for record in records(folder, "train")] == list(range(1, 13))


@pytest.mark.parametrize("change", ["data.holdout=0", "data.fold_back=true"])
def test_without_validation_images_it_is_refused_before_training(tmp_path: Path, change: str) -> None:
    recipe = registry.resolve("igpt.digits", assignments=[*WORDS, change]).recipe
    with pytest.raises(ValueError, match="probe_every chooses and judges by validation images"):
        start(recipe, tmp_path / "run", device=CPU, watch=Watch())
    assert not (tmp_path / "run").exists()
