"""Metrics reach TensorBoard and Weights & Biases once per step; a logger that fails stops no run."""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import isopix
from isopix.runs import loggers as metric_loggers
from isopix.runs.loggers import RunLogger
from isopix.runs.training_log import RunObserver
from isopix.storage.run_folder import RunFolder
from tests.trained import logged, train

WORDS = ["depth=1", "width=16", "steps=6", "batch_size=4", "checkpoint_every=3", "data.limit=64"]
WORDS += ["evaluate_images=8", "num_test_images=8", "evaluate_every=2", "log_every=1"]
TEST = "evaluation/test/loss_nats"
STEPS = [1, 2, 3, 4, 5, 6]
NAMES = ["tensorboard", "wandb"]


class FakePackage:
    """A package like wandb, which keeps what it is given; `fail_at` is a step that it refuses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.opened, self.rows, self.closed, self.step = list[dict[str, Any]](), list[Any](), 0, 0
        self.mode = "online"
        self.fail_at: int | None = None
        module = ModuleType("wandb")
        vars(module).update(init=self.init, finish=self.finish, Settings=SimpleNamespace)
        vars(module).update(setup=lambda: SimpleNamespace(settings=self))
        vars(module).update(login=lambda prompt, verify: not prompt)
        monkeypatch.setitem(sys.modules, "wandb", module)

    def init(self, **options: Any) -> "FakePackage":
        self.opened.append(options)
        self.rows = [each for each in self.rows if each[0] < self.step]  # a kill loses the step under way
        return self

    def log(self, metrics: dict[str, float], step: int) -> None:
        if step == self.fail_at:
            raise ConnectionError("no route\nto host")
        self.step = step
        self.rows += [(step, name) for name in metrics]

    def finish(self) -> None:
        self.closed, self.step = self.closed + 1, self.step + 1

    def steps(self, metric: str) -> list[int]:
        return [step for step, name in self.rows if name == metric]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> FakePackage:
    return FakePackage(monkeypatch)


def pretrain(out: Path, *loggers: str, stop_at: int | None = None) -> None:
    steps = list[int]()
    observer = RunObserver(
        record=lambda record: steps.append(record["step"]), stop=lambda: steps[-1] == stop_at, loggers=loggers
    )
    train("igpt.digits", out, *WORDS, observer=observer)


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.fixture(autouse=True)
def _numbered_from_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard reads the event files of one second in the order of their names: number 10 before 9."""
    if find_spec("tensorboard"):
        from tensorboard.summary.writer import event_file_writer  # noqa: PLC0415 - an extra

        monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


def test_every_number_of_the_log_reaches_each_logger(
    tmp_path: Path, package: FakePackage, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard")
    pretrain(tmp_path / "run", *NAMES)
    expected = {
        (max(record["step"], record.get("last_step", 0)), name)
        for record in logged(tmp_path / "run")
        for name in metric_loggers.metrics_of(record)
    }
    assert {(6, "train/loss_nats"), (0, "evaluation/validation/loss_nats"), (6, TEST)} <= expected
    drawn = [(step, name) for name, points in scalars(tmp_path / "run").items() for step, _ in points]
    assert sorted(drawn) == sorted(expected)
    assert sorted(package.rows) == sorted(expected)
    assert (len(package.opened), package.closed) == (1, 1)
    assert package.opened[0]["config"]["train"]["steps"] == 6
    assert package.opened[0]["dir"] == str(tmp_path / "run")


def resumed(out: Path, logger: str) -> None:
    """A run that had reached the step after its last checkpoint when it was killed."""
    pretrain(out, logger, stop_at=3)
    log = RunLogger(logger, RunFolder(out), record=pytest.fail)
    step = max(int(each.name.split("-")[1]) for each in RunFolder(out).checkpoints.iterdir())
    record = {"kind": "train", "step": step + 1, "loss_nats": 99.0}
    log.write(record, lambda: [record])
    if logger == "tensorboard":
        log.close()
    isopix.resume(out, logger=[logger], device="cpu")


def test_a_resumed_run_continues_the_same_run_without_repeated_steps(
    tmp_path: Path, package: FakePackage
) -> None:
    resumed(tmp_path / "run", "wandb")
    assert len(package.opened) == 3
    assert len({each["id"] for each in package.opened}) == 1
    assert package.steps("train/loss_nats") == STEPS
    assert package.steps("evaluation/validation/loss_nats") == [0, 2, 4, 6]
    assert package.steps(TEST) == [6]


def test_tensorboard_has_each_step_of_a_resumed_run_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    resumed(tmp_path / "run", "tensorboard")
    drawn = scalars(tmp_path / "run")
    assert [step for step, _ in drawn["train/loss_nats"]] == STEPS
    assert [step for step, _ in drawn[TEST]] == [6]


def test_a_logger_that_fails_is_switched_off_with_one_note(tmp_path: Path, package: FakePackage) -> None:
    package.fail_at = 4
    pretrain(tmp_path / "run", "wandb")
    records = logged(tmp_path / "run")
    notes = [(each["step"], each["text"]) for each in records if "switched off" in each.get("text", "")]
    assert notes == [(4, "logger 'wandb' is switched off: ConnectionError: no route to host")]
    assert package.steps("train/loss_nats") == [1, 2, 3]
    assert records[-1]["split"] == "test"


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_package_says_how_to_install_it_before_any_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard" if name == "tensorboard" else name, None)
    message = rf"^logger '{name}' is not installed \(.*\); pip install -e '\.\[{name}\]'$"
    with pytest.raises(ValueError, match=message):
        isopix.finetune("igpt.digits-trained", out=tmp_path / "run", logger=[name])
    assert not (tmp_path / "run").exists()
