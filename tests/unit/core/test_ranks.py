"""The end of a process among several."""

import os
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import atexit, sys
from isopix.core.ranks import end_process

class Last:
    def __del__(self):
        print("interpreter's end")

last = Last()
last.itself = last
atexit.register(print, "at exit")
print("output")
end_process()
"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RANK": "0", "MASTER_ADDR": "localhost"}, "output\nat exit\n"),
        ({}, "output\nat exit\ninterpreter's end\n"),
    ],
)
def test_a_rank_ends_after_its_output_and_exit_functions_without_the_interpreters_end(
    variables: dict[str, str], expected: str
) -> None:
    plain = {name: value for name, value in os.environ.items() if name not in ("RANK", "MASTER_ADDR")}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=plain | variables, capture_output=True, text=True, check=True
    )
    assert found.stdout == expected


PARENT = """
import signal, subprocess, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as below nohup
code = "import time; from isopix.core.ranks import *; end_with_parent(); print(); time.sleep(40)"
subprocess.Popen([sys.executable, "-c", code], stdout=sys.stderr)
sys.stdin.read()
"""


def test_a_rank_ends_once_its_parent_is_gone() -> None:
    variables = {**os.environ, "RANK": "0", "MASTER_ADDR": "localhost"}
    pipes: Any = dict.fromkeys(("stdin", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", PARENT], env=variables, **pipes) as parent:
        assert parent.stderr.readline() == b"\n"
        parent.kill()
        assert parent.communicate(timeout=20)[1] == b""  # the pipe is closed by the end of the rank
