"""Evaluators of features use no test image, leave no trace in the weights, and are repeated by a resume."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from isopix.probing import evaluators
from isopix.probing.methods import LbfgsProbe
from isopix.recipes import registry
from isopix.runs.training_log import RunObserver
from isopix.storage.run_folder import RunFolder
from tests.trained import StopAt, different_weights, logged, resume, train

WORDS = [
    *("depth=1", "width=16", "steps=12", "batch_size=16", "log_every=1", "evaluate_every=5"),
    *("evaluate_images=40", "checkpoint_every=4", "data.limit=90"),
]
PROBED = [*WORDS, "probe_every=5", "knn_images=60"]
RECIPE, ALONE = (registry.resolve("igpt.digits_bert", settings=each).recipe for each in (PROBED, WORDS))


def files(folder: RunFolder) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.history.iterdir())}


@pytest.fixture(scope="module", autouse=True)
def _quick_fits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluators, "METHOD", LbfgsProbe(l2_grid=(0.1, 1.0)))
        yield


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return train(RECIPE, tmp_path_factory.mktemp("probed") / "run").run


def test_training_is_the_same_with_and_without(probed: RunFolder, tmp_path: Path) -> None:
    alone = train(ALONE, tmp_path / "run").run
    assert different_weights(probed.path, alone.path) == []
    for kind in ("train", "evaluation"):
        logs = (logged(each.path, kind=kind) for each in (probed, alone))
        losses = [[record["loss_nats"] for record in log] for log in logs]
        assert losses[0] == losses[1]
    assert not alone.history.exists()


@pytest.mark.parametrize("stop", [5, 7])
def test_a_run_that_was_stopped_ends_with_the_same_probes(
    probed: RunFolder, tmp_path: Path, stop: int
) -> None:
    folder = train(RECIPE, tmp_path / "run", observer=RunObserver(stop=StopAt(stop))).run
    stray = folder.history / "step-00000099.json"
    stray.write_text("{}")  # as a killed process leaves that was ahead of its last checkpoint
    resume(folder.path)
    assert files(folder) == files(probed)
    assert logged(folder.path, split="validation") == logged(probed.path, split="validation")


@pytest.mark.parametrize("change", ["data.holdout=0", "data.train_on_validation=true"])
def test_without_validation_images_it_is_refused_before_training(tmp_path: Path, change: str) -> None:
    with pytest.raises(ValueError, match="probe_every needs two or more validation images"):
        train("igpt.digits", tmp_path / "run", *PROBED, change)
    assert not (tmp_path / "run").exists()
