"""Long steps show how far they are."""

import io

import pytest
from rich.console import Console

from isopix.cli import long_steps
from isopix.cli.long_steps import long_step_display


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(long_steps.time, "monotonic", lambda: now[0])
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
