"""A working folder as a user has it, and the command line called as a user calls it."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isopix.cli import probe
from isopix.cli.main import main
from isopix.probe.config import ProbeConfig

QUICK = ["steps=2", "depth=1", "width=16", "batch=4", "log_every=1", "test_images=8", "evaluate_images=8"]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the current one, and holds `photos/` with two classes of 30 images."""
    monkeypatch.chdir(tmp_path)
    for place, name in enumerate(("cats", "dogs")):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for i in range(30):
            draw = np.random.default_rng(100 * place + i)
            pixels = draw.integers(place * 90, 160 + place * 90, (40, 48, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{i}.png")
    return tmp_path


@pytest.fixture
def isopix(workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`isopix(*words)` as at a prompt; returns exit code, standard output and standard error."""

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["isopix", *words])
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
    """Probes with one L2 penalty instead of nineteen."""
    monkeypatch.setattr(
        probe, "ProbeConfig", partial(ProbeConfig, l2_grid=(0.1,), l2_extra=(), num_resamples=50)
    )
