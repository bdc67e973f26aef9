"""A working folder with images, and the command line called in-process."""

import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from isopix.cli.main import main
from isopix.core import progress
from isopix.core.progress import ProgressBar
from isopix.plots import style
from isopix.probing import probe
from isopix.probing.probe import ProbeMethod, probe_method
from isopix.recipes import cost

QUICK = ["steps=2", "depth=1", "width=16", "batch_size=4", "log_every=1"]
QUICK += ["num_test_images=8", "evaluate_images=8"]

Run = Callable[..., tuple[int, str, str]]


def add_photos(folder: Path) -> Path:
    """Add `photos/` with two classes of 30 images to a folder."""
    for label, name in enumerate(("cats", "dogs")):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(30):
            rng = np.random.default_rng(100 * label + i)
            pixels = rng.integers(label * 90, 160 + label * 90, (40, 48, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{i}.png")
    return folder


def refused(result: tuple[int, str, str], message: str, *, code: int = 2) -> None:
    """Assert that standard error is this one line."""
    assert result[2] == f"isopix: {message}\n"
    assert result[0] == code


def done(result: tuple[int, str, str]) -> str:
    """Assert that a command has succeeded without a message; return its standard output."""
    assert (result[0], result[2]) == (0, "")
    return result[1]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder that holds `photos/`."""
    monkeypatch.chdir(tmp_path)
    return add_photos(tmp_path)


@pytest.fixture
def isopix(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return `isopix(*words)`: the exit code, standard output with progress, and standard error.

    It runs in the `folder` of the test's module, or else in a workplace of its own.
    """
    if "folder" in request.fixturenames:
        monkeypatch.chdir(request.getfixturevalue("folder"))
    else:
        request.getfixturevalue("workplace")
    monkeypatch.setattr(ProgressBar, "interval", 1e9)  # a slow machine writes no lines of progress

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["isopix", *words])
        shown = None if "--json" in words else Console(highlight=False)
        monkeypatch.setattr(progress._Process, "console", shown)
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one L2 penalty instead of up to nineteen, and one that converges soon, in tests that do not depend
    on the probe's accuracy.
    """

    def quick(kind: str, settings: Sequence[str] = ()) -> ProbeMethod:
        return probe_method(kind, settings or (("l2_grid=[10.0]",) if kind == "lbfgs" else ()))

    monkeypatch.setattr(probe, "probe_method", quick)


@pytest.fixture
def quick_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw coarse figures without arranging their panels, in tests that do not depend on how they look."""
    monkeypatch.setitem(style._RC_PARAMS, "figure.constrained_layout.use", False)
    monkeypatch.setitem(style._RC_PARAMS, "savefig.dpi", 40)


@pytest.fixture
def known_throughput(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure no matmuls, in tests that do not depend on their rate: these CPU kernels emulate bfloat16, at
    tens of seconds for a product.
    """
    monkeypatch.setattr(cost, "matmul_throughput", lambda *given: 1e11)
