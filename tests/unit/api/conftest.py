"""Tiny runs on digits, made on the command line, and the comparison of records."""

import io
import json
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
# What differs between two calls with the same result: time, place and command.
VOLATILE = {
    "written",
    "folder",
    "command",
    "started",
    "seconds",
    "images_per_second",
    "peak_memory_bytes",
    "energy_joules",
    "path",
    "record",
    "run",
    "run_id",
}

Copy = Callable[..., Path]


def cli(*words: object) -> str:
    """Run a command and return its standard output."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output):
        patch.setattr(sys, "argv", ["isopix", *map(str, words)])
        with suppress(SystemExit):  # a failure is a test that finds no files
            main()
    return output.getvalue()


def lasting(values: Any) -> Any:
    """The values without what differs between two calls."""
    if isinstance(values, dict):
        return {name: lasting(value) for name, value in values.items() if name not in VOLATILE}
    return [lasting(value) for value in values] if isinstance(values, list) else values


def read(path: Path) -> Any:
    """A JSON file, or the lines of a log, without what differs between two calls."""
    if path.suffix == ".jsonl":
        return [lasting(json.loads(line)) for line in path.read_text().splitlines()]
    return lasting(json.loads(path.read_text()))


def assert_same_files(one: Path, other: Path) -> None:
    """The same names, and the same contents but for time, place and command."""
    names = {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
    assert names == {path.relative_to(other) for path in other.rglob("*") if path.is_file()}
    for name in names:
        if name.suffix in (".json", ".jsonl") and name.name != "manifest.json":
            assert read(one / name) == read(other / name), name
        elif name.suffix in (".png", ".safetensors", ".npz"):
            assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, autoregressive and masked, made once by the command line, for copying."""
    folder = tmp_path_factory.mktemp("runs")
    for name, recipe in (("ar", "igpt.digits"), ("bert", "igpt.digits_bert")):
        options = ["--out", folder / name, "--device", "cpu", "--limit", LIMIT]
        cli("pretrain", recipe, *TINY, *options)
    return folder


@pytest.fixture
def copy_of(pristine: Path, tmp_path: Path) -> Copy:
    """`copy_of("ar", "a")`: a run of one's own."""
    return lambda name, to: Path(shutil.copytree(pristine / name, tmp_path / to))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it: without the runtime type checker of the tests."""
    monkeypatch.setattr(config, "jaxtyping_disable", True)
