"""Tiny runs on digits, made on the command line: fixtures of the tests of models, verbs and the studio."""

import io
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
from jaxtyping import config

from isopix.cli.main import main

SMALL = ["steps=4", "depth=1", "width=16", "batch_size=8", "log_every=1", "evaluate_every=2"]
TINY = [*SMALL, "num_test_images=16", "evaluate_images=16"]
LIMIT = 60
CPU: dict[str, Any] = {"device": "cpu"}

Copy = Callable[..., Path]


def cli(*words: object) -> str:
    """Run a command and return its standard output."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output):
        patch.setattr(sys, "argv", ["isopix", *map(str, words)])
        with suppress(SystemExit):  # a failure is a test that finds no files
            main()
    return output.getvalue()


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, autoregressive and masked, made once by the command line, for copying."""
    folder = tmp_path_factory.mktemp("runs")
    for name, recipe in (("ar", "igpt.digits"), ("bert", "igpt.digits_bert")):
        cli("pretrain", recipe, *TINY, "--out", folder / name, "--device", "cpu", "--limit", LIMIT)
    return folder


@pytest.fixture
def copy_of(pristine: Path, tmp_path: Path) -> Copy:
    """`copy_of("ar", "a")`: a run of one's own."""
    return lambda name, to: Path(shutil.copytree(pristine / name, tmp_path / to))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it: without the runtime type checker of the tests."""
    monkeypatch.setattr(config, "jaxtyping_disable", True)
