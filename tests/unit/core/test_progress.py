"""Long steps and trainings are shown as bars that change, or as lines every few seconds."""

import io
import time

import pytest
from rich.console import Console

import isopix
from isopix.core import progress
from isopix.core.progress import show_progress, track
from isopix.train.throughput import TrainingDisplay

RECORD = {"kind": "train", "step": 10, "images": 100, "loss_nats": 2.0, "images_per_second": 50.0}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress._Process, "console", None)
    return now


@pytest.fixture
def pipe() -> io.StringIO:
    written = io.StringIO()
    show_progress(Console(file=written, width=20))
    return written


@pytest.fixture
def terminal() -> io.StringIO:
    written = io.StringIO()
    show_progress(Console(file=written, force_terminal=True, width=100))
    return written


def counted(clock: list[float]) -> None:
    """Ten items, one each minute."""
    with track("counting <to> ten", 10) as count:
        for done in range(11):
            count(done)
            clock[0] += 60


def test_nothing_is_shown_unless_asked_and_then_on_standard_error_of_rank_0(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(clock)
    isopix.show_progress()
    with monkeypatch.context() as patch:
        patch.setenv("RANK", "1")
        counted(clock)
    with progress.quiet():
        counted(clock)
    isopix.show_progress(False)
    counted(clock)
    assert capsys.readouterr() == ("", "")
    isopix.show_progress()
    counted(clock)
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[4]) == ("", "counting <to> ten  5 of 10  0.0/s  eta 5 min 0 s")


def test_a_pipe_gets_a_line_every_ten_seconds_and_none_for_a_short_step(
    clock: list[float], pipe: io.StringIO
) -> None:
    """100 images a second; 2,000 were done before."""
    with track("preparing images", 10_000) as count:
        for done in range(2_000, 10_001, 100):
            count(done)
            clock[0] += 1
    first, *_, last = pipe.getvalue().splitlines()
    assert first == "preparing images  3,000 of 10,000  100/s  eta 1 min 10 s"
    assert last == "preparing images  10,000 of 10,000  100/s  eta under 1 s"
    with track("short", 10) as count:
        count(10)
    assert "short" not in pipe.getvalue()


def test_a_terminal_gets_a_bar_that_disappears_also_inside_another(
    clock: list[float], terminal: io.StringIO
) -> None:
    with track("outer", 2) as outer:
        clock[0] += 1
        outer(1)
        with track("inner", 3) as inner:
            clock[0] += 1
            inner(1)
            wait_for("inner", terminal)
    assert "1 of 2" in terminal.getvalue()
    assert "1 of 3" in terminal.getvalue()
    assert "\x1b[2K" in terminal.getvalue()[-20:]  # the line is erased


def wait_for(text: str, written: io.StringIO) -> None:
    for _ in range(1000):
        if text in written.getvalue():
            return
        time.sleep(0.01)


def test_a_training_shows_its_log_records(pipe: io.StringIO) -> None:
    """50 images/s of 1000 FLOPs at a peak of 200,000; 100 steps of 10 images are left."""
    display = TrainingDisplay(progress.open_bar(), "title", 110, flops=1000, peak=200_000.0)
    display.show(RECORD)
    display.show({**RECORD, "step": 11})  # too early for another line
    display.show({"kind": "baselines", "step": 0, "held_out": "test", "images": 1800, "nats": {"PNG": 1.5}})
    display.close()
    assert pipe.getvalue().splitlines() == [
        "title",
        "step 10/110  loss 2.0000  50.0 img/s  MFU 25.0%  eta 20 s",
        "baselines on 1,800 test images: PNG 1.5000 nats",
    ]
