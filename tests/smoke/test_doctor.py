"""`isopix doctor`: all is well here; what is broken is named, with what to do, and the exit code is 1."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from isopix.api import self_test
from isopix.core import device as hardware
from tests.smoke.conftest import Run
from tests.smoke.test_bad_input import refused


def test_a_good_installation_passes(isopix: Run) -> None:
    code, out, err = isopix("doctor", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["ok"]
    checks = {each["name"]: each for each in found["checks"]}
    assert {"isopix", "packages", "device", "cuda", "threads", "memory", "disk", "cache"} <= checks.keys()
    assert checks["training"]["status"] == checks["saved weights"]["status"] == "ok"
    assert found["packages"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert found["extras"]["hub"]["install"] == "pip install 'isopix[hub]'"


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "training_checks", lambda device: iter(()))


@pytest.mark.usefixtures("no_training")
def test_what_is_broken_is_named_with_what_to_do(
    isopix: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modules/torchvision").mkdir(parents=True)
    (tmp_path / "modules/torchvision/__init__.py").write_text("raise RuntimeError('no operator nms')")
    (tmp_path / "file").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path / "file" / "cache"))
    code, out, err = isopix("doctor")
    assert (code, err) == (1, "isopix: broken: torchvision, cache\n")
    assert "torchvision: pip uninstall torchvision" in out
    assert "cache: set ISOPIX_CACHE to a folder on a local disk" in out


@pytest.mark.usefixtures("no_training")
def test_a_driver_without_a_matching_torch_is_a_warning(isopix: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "nvidia_driver", lambda: "550.54")
    monkeypatch.setattr(hardware, "has_cuda", lambda: False)
    monkeypatch.setattr(hardware, "cuda_build", lambda: None)
    code, out, _ = isopix("doctor")
    assert code == 0
    assert "cuda: to use the GPU, install a CUDA build of torch" in out


def test_small_shared_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "SHARED_MEMORY", Path("/"))
    usage = SimpleNamespace(disk_usage=lambda path: (64 * 2**20, 0, 60 * 2**20))
    monkeypatch.setattr(self_test, "shutil", usage)
    check = {each.name: each for each in self_test.device_checks("cpu")}["shared memory"]
    assert (check.status, check.found) == ("warning", "60.0 MiB free of 64.0 MiB in /")
    assert "--shm-size" in check.action


@pytest.mark.parametrize(
    ("precision", "text"), [("bf16", "bf16"), ("fp32", "fp32, as bf16 would be emulated")]
)
def test_the_precision_is_that_of_the_device(
    monkeypatch: pytest.MonkeyPatch, precision: str, text: str
) -> None:
    monkeypatch.setattr(hardware, "native_precision", lambda device: precision)
    check = {each.name: each for each in self_test.device_checks("cpu")}["precision"]
    assert (check.status, check.found) == ("ok", text)


def test_a_loss_that_does_not_fall_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "TINY", (*self_test.TINY, "lr=1e-9", "data.limit=20", "steps=2"))
    [loss, weights] = self_test.training_checks("cpu")
    assert (loss.name, loss.status, weights.status) == ("training", "failed", "ok")


def test_weights_that_are_read_differently_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    real = self_test.verify
    shifted = SimpleNamespace(loss_nats=0.0)
    monkeypatch.setattr(self_test, "TINY", (*self_test.TINY, "data.limit=20", "steps=2"))
    monkeypatch.setattr(self_test, "verify", lambda *given, **named: real(*given, **named) and shifted)
    [_, weights] = self_test.training_checks("cpu")
    assert (weights.name, weights.status) == ("saved weights", "failed")


def test_a_device_that_is_not_there_is_a_wrong_call(isopix: Run) -> None:
    refused(
        isopix("doctor", "--device", "cuda:7"), "--device 'cuda:7' is not available; available: auto, cpu"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["doctor"], "isopix: broken: torch\n"),
        (["plan", "igpt.s"], "isopix: libcudart is missing; isopix doctor checks the installation\n"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_one_line(workplace: Path, words: list[str], message: str) -> None:
    (workplace / "modules/torch").mkdir(parents=True)
    (workplace / "modules/torch/__init__.py").write_text("raise ImportError('libcudart is missing')")
    path = os.pathsep.join([str(workplace / "modules"), str(Path(__file__).parents[2])])
    command = [sys.executable, "-m", "isopix", *words]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (1, message)
