"""Exit codes of stop signals: 75 for a batch system's first one, 128 + the number for all others."""

import signal
import subprocess
import sys

import pytest

from isopix.cli.stop_signals import exit_code, stop_message
from isopix.train.signals import StopSignal


@pytest.mark.parametrize(
    ("stopped", "code"),
    [
        (StopSignal(signal.SIGTERM, at_once=False), 75),
        (StopSignal(signal.SIGUSR1, at_once=False), 75),
        (StopSignal(signal.SIGHUP, at_once=False), 75),
        (StopSignal(signal.SIGINT, at_once=False), 130),
        (StopSignal(signal.SIGTERM, at_once=True), 143),
        (StopSignal(signal.SIGINT, at_once=True), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(stopped: KeyboardInterrupt, code: int) -> None:
    assert exit_code(stopped) == code


def test_messages() -> None:
    first = StopSignal(signal.SIGTERM, at_once=False)
    assert "SIGTERM" in stop_message(first)
    assert stop_message(KeyboardInterrupt()) == "interrupted"
    assert stop_message(KeyboardInterrupt("resume with: x")) == "resume with: x"


END = """
import atexit, os, signal, sys
from isopix.__main__ import main
sys.argv = ["isopix", "recipe", "list"]
kill = os.kill
class Late:
    def __del__(self):
        kill(pid, signal.SIGTERM)  # when Python has given up its own handlers
pid, sys.late = os.getpid(), Late()
atexit.register(kill, pid, signal.SIGTERM)
main()
"""


def test_a_signal_after_the_end_of_a_command_changes_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", END], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
