"""`isopix doctor`: all is well here; what is broken is named, with what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isopix.core import device as hardware
from isopix.verbs import doctor as verb
from isopix.verbs.doctor import doctor


def test_a_good_installation_passes() -> None:
    found = doctor()
    checks = {each.name: each for each in found.checks}
    assert found.failure == ""
    assert {"isopix", "device", "cuda", "threads", "training"} <= checks.keys()


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "training_checks", lambda device: iter(()))


@pytest.mark.usefixtures("checks")
def test_an_unused_driver_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "nvidia_driver", lambda: "550.54")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert doctor().notes() == ["cuda: install a build of torch for CUDA of this driver"]


def test_training_that_learns_nothing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "TINY", (*verb.TINY, "lr=1e-9", "data.limit=20", "steps=8"))
    assert [each.status for each in verb.training_checks("cpu")] == ["failed"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["doctor"], "isopix: broken: torch\n"),
        (["doctor", "--json"], "isopix: broken: torch\n"),
        (["plan", "igpt.s"], "isopix: libcudart is missing; isopix doctor checks the installation\n"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise ImportError('libcudart is missing')")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])
    command = [sys.executable, "-m", "isopix", *words]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (1, message)
