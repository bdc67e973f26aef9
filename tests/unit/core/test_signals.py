"""Stop signals are recorded in training and raised elsewhere, and end with their exit codes."""

import signal
import subprocess
import sys
import time

import pytest

from isopix.core import signals
from isopix.core.signals import STOP_SIGNALS, Interrupted, StopSignal, exit_code, stop_requested, stopped_by

WORKER = """
import time
from isopix.core.signals import stop_requested
with stop_requested() as request:
    print("ready", flush=True)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not request.signal:
        time.sleep(0.005)
    print("saved after", request.signal.name, flush=True)
    time.sleep(30)
"""


@pytest.mark.parametrize("asking", STOP_SIGNALS)
def test_a_signal_ends_the_run_after_its_step_and_a_second_ctrl_c_at_once(asking):
    command = [sys.executable, "-c", WORKER]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert worker.stdout.readline() == "ready\n"
    worker.send_signal(asking)
    assert worker.stdout.readline() == f"saved after {asking.name}\n"
    worker.send_signal(signal.SIGINT)
    assert "StopSignal" in worker.communicate(timeout=10)[1]


def test_a_second_notice_ends_it_at_once_but_the_one_that_follows_a_preemption():
    """Some clusters send SIGTERM first, and SIGUSR2 a while later."""
    with stop_requested() as request:
        request._since -= 1  # it trains for a second already
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # the same notice, repeated within half a second
        time.sleep(0.6)
        signal.raise_signal(signal.SIGUSR2)
        for second in STOP_SIGNALS[:-1]:
            with pytest.raises(StopSignal) as caught:
                signal.raise_signal(second)
            assert (caught.value.signal, caught.value.at_once) == (second, True)
    assert request.signal is stopped_by() is signal.SIGTERM


def test_a_signal_whose_exception_was_swallowed_stops_the_next_training(monkeypatch):
    monkeypatch.setattr(signals._Process, "raised", signal.SIGTERM)
    with stop_requested() as request:
        assert request.signal is signal.SIGTERM


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        handlers = [signal.getsignal(number) for number in STOP_SIGNALS]
        with stop_requested() as request:
            signal.raise_signal(signal.SIGHUP)
        assert request.signal is None
        assert [signal.getsignal(number) for number in STOP_SIGNALS] == handlers
    finally:
        signal.signal(signal.SIGHUP, before)


# What NumPy and Cyclopts make of an exception that a signal handler raises while they import.
CONVERTED = """
import os, signal, sys
from isopix.core.signals import StopSignal, errors_as_stops, handle_stop_signals
signal.signal(signal.SIGHUP, signal.SIG_IGN)
handle_stop_signals()
os.kill(os.getpid(), signal.SIGHUP)
try:
    with errors_as_stops():
        try:
            if sys.argv[1] == "signal":
                os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            pass
        raise ImportError("half imported")
except StopSignal as stopped:
    print(stopped.signal.name)
"""


@pytest.mark.parametrize(("event", "stopped"), [("signal", True), ("nothing", False)])
def test_an_error_after_a_signal_is_the_signal(event, stopped):
    command = [sys.executable, "-c", CONVERTED, event]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.stdout == "SIGTERM\n") == stopped
    assert ("half imported" in done.stderr) != stopped


def test_saved_work_and_a_batch_systems_first_signal_end_with_75_and_others_with_128_and_their_number():
    assert exit_code(StopSignal(signal.SIGHUP, at_once=False)) == exit_code(Interrupted("", None)) == 75
    assert exit_code(StopSignal(signal.SIGINT, at_once=False)) == exit_code(KeyboardInterrupt()) == 130
    assert exit_code(StopSignal(signal.SIGTERM, at_once=True)) == 143
