"""`isopix doctor`: all is well here; what is broken is named, with what to do."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from isopix.core import device as hardware
from isopix.verbs import doctor as verb
from isopix.verbs.doctor import doctor


def test_a_good_installation_passes() -> None:
    found = doctor()
    checks = {each.name: each for each in found.checks}
    assert found.failure == ""
    assert {"isopix", "packages", "device", "cuda", "threads", "memory", "disk", "cache"} <= checks.keys()
    assert checks["training"].status == checks["saved weights"].status == "ok"
    assert str(found.packages["torch"]).split("+")[0] == torch.__version__.split("+")[0]
    assert "hub" in checks["extras"].found


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "training_checks", lambda device: iter(()))


@pytest.mark.usefixtures("checks")
def test_what_is_broken_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision/__init__.py").write_text("raise RuntimeError('no operator nms')")
    (tmp_path / "file").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(hardware, "nvidia_driver", lambda: "550.54")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    found = doctor()
    assert found.failure == "broken: torchvision, cache"
    assert found.notes() == [
        "torchvision: pip uninstall torchvision, or install the version for this torch",
        "cuda: install a build of torch for CUDA of this driver",
        "cache: set ISOPIX_CACHE to a folder on a local disk",
    ]


@pytest.mark.usefixtures("checks")
def test_a_missing_package_and_one_of_another_version_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["torch>=99", "no-such-package>=1", "numpy", "wandb>=0.1; extra == 'wandb'", "x; extra == 'dev'"]
    extras = SimpleNamespace(get_all=lambda name: ["wandb", "dev"])
    monkeypatch.setattr(verb.metadata, "requires", lambda name: lines)
    monkeypatch.setattr(verb.metadata, "metadata", lambda name: extras)
    found = doctor()
    assert found.failure == "broken: torch, no-such-package"
    [missing] = [each for each in found.checks if each.name == "no-such-package"]
    assert (missing.status, missing.action) == ("failed", "pip install 'no-such-package>=1'")
    assert "not installed: wandb (" in {each.name: each.found for each in found.checks}["extras"]


@pytest.mark.parametrize(("largest", "failed"), [(1e9, "training"), (-1, "saved weights")])
def test_training_that_learns_nothing_and_weights_that_differ_are_failures(
    monkeypatch: pytest.MonkeyPatch, largest: float, failed: str
) -> None:
    rate = "lr=1e-9" if failed == "training" else "lr=0.01"
    monkeypatch.setattr(verb, "TINY", (*verb.TINY, rate, "data.limit=20", "steps=8"))
    monkeypatch.setattr(verb, "MAX_DIFFERENCE", largest)
    assert [each.name for each in verb.training_checks("cpu") if each.status == "failed"] == [failed]


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
