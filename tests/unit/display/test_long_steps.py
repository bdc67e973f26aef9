"""Long steps show how far they are."""

import io
import re
import time
from collections.abc import Callable
from functools import partial
from threading import Timer

import pytest
from rich.console import Console

from isopix.display import long_steps
from isopix.display.bars import ProgressBar, console_bar
from isopix.display.long_steps import long_step_display


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(long_steps.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(long_steps, "Timer", lambda _, act: Timer(3600, act))  # real seconds do not count
    return now


def _bar(console: Console) -> Callable[[], ProgressBar]:
    return lambda: console_bar(console, transient=True, separator=": ")


def _counted(clock: list[float], console: Console) -> None:
    with long_step_display(_bar(console), "preparing images", 10_000, 2_000) as count:
        for done in range(2_000, 10_001, 100):
            count(done)
            clock[0] += 1


def _contains(written: io.StringIO, text: str) -> bool:
    return text in written.getvalue()


def _wait(shown: Callable[[], bool], seconds: float = 10) -> None:
    for _ in range(round(seconds * 100)):
        if shown():
            return
        time.sleep(0.01)


def test_a_pipe_gets_a_line_every_ten_seconds_and_none_for_a_short_step(clock: list[float]) -> None:
    """100 images a second; 2,000 were done before."""
    pipe = Console(file=io.StringIO(), width=20)
    _counted(clock, pipe)
    first, *_, last = pipe.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert first == "preparing images: 3,000 of 10,000  100/s  eta 1:10"
    assert last == "preparing images: 10,000 of 10,000  100/s  eta 0:00"
    with long_step_display(_bar(pipe), "short", 10, 0) as count:
        count(10)
    assert "short" not in pipe.file.getvalue()  # type: ignore[attr-defined]


def test_the_time_left_does_not_count_the_first_item_which_may_compile(clock: list[float]) -> None:
    """The first of 61 items takes 100 seconds, each of the others 10."""
    pipe = Console(file=io.StringIO(), width=80)
    with long_step_display(_bar(pipe), "sampling", 61, 0) as count:
        clock[0] += 100
        count(1)
        clock[0] += 10
        count(2)
    assert pipe.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "sampling: 1 of 61",
        "sampling: 2 of 61  0.1/s  eta 9:50",
    ]


def test_a_terminal_gets_a_bar_that_disappears_also_inside_another(clock: list[float]) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with long_step_display(_bar(terminal), "outer", 2, 0) as outer:
        clock[0] += 1
        outer(1)
        with long_step_display(_bar(terminal), "inner", 3, 0) as inner:
            clock[0] += 1
            inner(1)
            _wait(lambda: "inner" in terminal.file.getvalue())  # type: ignore[attr-defined]
    shown = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "elapsed 0:00" in shown
    assert "1 of 2" in shown
    assert "1 of 3" in shown
    assert "\x1b[2K" in shown[-20:]  # the line is erased


def test_a_short_step_has_no_bar(clock: list[float]) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with long_step_display(_bar(terminal), "short", 10, 0) as count:
        for done in range(10):
            clock[0] += 0.04
            count(done)
    assert "short" not in terminal.file.getvalue()  # type: ignore[attr-defined]


def test_a_step_whose_first_items_are_late_has_a_bar_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_steps, "DELAY", 0.01)
    written = io.StringIO()
    terminal = Console(file=written, force_terminal=True, width=100)
    with long_step_display(_bar(terminal), "fitting probes", 5, 0):
        _wait(lambda: "0 of 5" in written.getvalue())
    assert "0 of 5" in written.getvalue()


def test_a_step_of_unknown_length_shows_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_steps, "DELAY", 0.01)
    for is_terminal in (True, False):
        written = io.StringIO()
        console = Console(file=written, force_terminal=is_terminal)
        with long_step_display(_bar(console), "k-means", None, 0):
            _wait(partial(_contains, written, "k-means"), seconds=10 if is_terminal else 0.05)
        assert ("k-means" in written.getvalue()) == is_terminal


def test_a_terminal_without_color_has_none(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    _counted(clock, terminal)
    shown = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "preparing images" in shown
    assert not re.search(r"\x1b\[(3[0-9]|4[0-9]|9[0-9]|38|48)[;m0-9]*m", shown)
