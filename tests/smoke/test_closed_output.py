"""A reader that has seen enough ends a command quietly; other failures to write are one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ISOPIX = [sys.executable, "-m", "isopix"]
FULL = Path("/dev/full")

pytestmark = [pytest.mark.integration, pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")]


def test_head_ends_a_command_quietly() -> None:
    command = 'set -o pipefail; "$0" -m isopix recipe list | { read -r line; echo "$line"; }'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("Recipes\n", "")
    assert done.returncode in (0, 141)  # 0 if all was written before the reader closed the pipe


@pytest.mark.parametrize("words", [["recipe", "list", "--json"], ["--help"]], ids=" ".join)
def test_a_closed_pipe_has_the_exit_code_of_its_signal(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*ISOPIX, *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["models", "--json"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_one_line(words: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run([*ISOPIX, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "isopix: standard output: No space left on device\n")


def test_a_command_runs_without_standard_streams() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&-', "sh", *ISOPIX, "--help"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
