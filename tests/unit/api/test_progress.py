"""Bars of the Python functions."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import isopix
from isopix import core
from isopix.api import progress
from isopix.api.progress import Progress, shows_progress
from isopix.display import long_steps


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(long_steps.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(core.progress, "_displays", [])  # that of the command line
    monkeypatch.setattr(progress, "_bars", [])
    return now


class Handle:
    """What IPython's `display` returns, and all that it has shown."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> "Handle":
        assert not self.shown, "one bar"
        self.update(data, raw=raw)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(data)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Handle:
    """A Jupyter kernel."""
    handle, ipython = Handle(), ModuleType("IPython")
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell, raising=False)
    display = ModuleType("IPython.display")
    monkeypatch.setattr(display, "display", handle.display, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return handle


@shows_progress("counting <to> ten")
def count(clock: list[float], *, progress: Progress | None = None) -> None:
    for done in range(11):
        if progress is not None:
            progress(done, 10)
        clock[0] += 60


def test_nothing_is_shown_unless_asked(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    count(clock)
    assert capsys.readouterr() == ("", "")


def test_lines_are_written_to_standard_error(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    isopix.show_progress()
    count(clock)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[4] == "counting <to> ten: 5 of 10  0.0/s  eta 5:00"
    isopix.show_progress(False)
    count(clock)
    assert capsys.readouterr() == ("", "")


def test_only_the_first_of_several_processes_shows_bars(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    isopix.show_progress()
    monkeypatch.setenv("RANK", "1")
    count(clock)
    assert capsys.readouterr() == ("", "")


def test_a_progress_argument_replaces_the_bar(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    isopix.show_progress()
    calls: list[tuple[int, int]] = []
    count(clock, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(done, 10) for done in range(11)]
    assert capsys.readouterr() == ("", "")


def test_a_notebook_has_one_bar_that_changes_and_disappears(clock: list[float], notebook: Handle) -> None:
    isopix.show_progress()
    count(clock)
    *changes, last = notebook.shown
    assert len(changes) == 10
    assert '<progress value="5" max="10">' in changes[4]["text/html"]
    assert "counting &lt;to&gt; ten" in changes[4]["text/html"]
    assert changes[4]["text/plain"] == "counting <to> ten  5 of 10  0.0/s  eta 5:00"
    assert last == {"text/html": "", "text/plain": ""}


def test_training_in_a_notebook_keeps_its_bar_and_prints_evaluations(
    notebook: Handle, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    isopix.show_progress()
    settings = ["steps=3", "depth=1", "width=16", "batch_size=4", "log_every=1", "evaluate_images=4"]
    isopix.pretrain("igpt.digits", data="digits", limit=30, out=tmp_path / "run", overrides=settings)
    assert notebook.shown[-1]["text/plain"].startswith("step 3/3  loss ")
    assert '<progress value="3" max="3">' in notebook.shown[-1]["text/html"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("igpt.digits on digits, 3 steps, batch size 4")
    assert any(line.startswith("step 3  test loss ") for line in printed)


def test_training_outside_a_notebook_writes_to_standard_error(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    isopix.show_progress()
    settings = ["steps=2", "depth=1", "width=16", "batch_size=4", "log_every=1", "evaluate_images=4"]
    isopix.pretrain("igpt.digits", data="digits", limit=30, out=tmp_path / "run", overrides=settings)
    out, err = capsys.readouterr()
    assert out == ""
    assert "step 2/2  loss " in err
