"""Long steps show how far they are."""

import io
import re
import time
from threading import Timer

import pytest
from rich.console import Console

from isopix.display import long_steps
from isopix.display.long_steps import long_step_display


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(long_steps.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(long_steps, "Timer", lambda _, act: Timer(3600, act))  # real seconds do not count
    return now


def _counted(clock: list[float], consoles: list[Console]) -> None:
    with long_step_display(consoles, "preparing images", 10_000, 2_000) as count:
        for done in range(2_000, 10_001, 100):
            count(done)
            clock[0] += 1


def test_a_pipe_gets_a_line_every_ten_seconds_and_none_for_a_short_step(clock: list[float]) -> None:
    """100 images a second; 2,000 were done before."""
    consoles = [Console(file=io.StringIO()), Console(file=io.StringIO(), width=20)]
    _counted(clock, consoles)
    first, *_, last = consoles[1].file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert first == "preparing images: 3,000 of 10,000  100/s  eta 1:10"
    assert last == "preparing images: 10,000 of 10,000  100/s  eta 0:00"
    with long_step_display(consoles, "short", 10, 0) as count:
        count(10)
    assert "short" not in consoles[1].file.getvalue()  # type: ignore[attr-defined]
    assert consoles[0].file.getvalue() == ""  # type: ignore[attr-defined]


def test_a_terminal_gets_a_bar_that_disappears_also_inside_another(clock: list[float]) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    pipe = Console(file=io.StringIO())
    with long_step_display([pipe, terminal], "outer", 2, 0) as outer:
        outer(1)
        _counted(clock, [pipe, terminal])
    shown = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "preparing images" in shown
    assert "\x1b[2K" in shown[-20:]  # the line is erased
    assert pipe.file.getvalue() == ""  # type: ignore[attr-defined]


def test_a_short_step_has_no_bar(clock: list[float]) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with long_step_display([terminal], "short", 10, 0) as count:
        for done in range(10):
            clock[0] += 0.04
            count(done)
    assert "short" not in terminal.file.getvalue()  # type: ignore[attr-defined]


def test_a_step_whose_first_items_are_late_has_a_bar_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_steps, "DELAY", 0.01)
    written = io.StringIO()
    terminal = Console(file=written, force_terminal=True, width=100)
    with long_step_display([terminal], "fitting probes", 5, 0):
        for _ in range(1000):
            if "0 of 5" in written.getvalue():
                break
            time.sleep(0.01)
    assert "0 of 5" in written.getvalue()


def test_a_step_of_unknown_length_shows_that_it_goes_on(clock: list[float]) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    pipe = Console(file=io.StringIO())
    for console in (terminal, pipe):
        with long_step_display([console], "k-means", None, 0):
            clock[0] += 60
    assert "k-means" in terminal.file.getvalue()  # type: ignore[attr-defined]
    assert pipe.file.getvalue() == ""  # type: ignore[attr-defined]


def test_a_terminal_without_color_has_none(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    _counted(clock, [terminal])
    shown = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "preparing images" in shown
    assert not re.search(r"\x1b\[(3[0-9]|4[0-9]|9[0-9]|38|48)[;m0-9]*m", shown)
