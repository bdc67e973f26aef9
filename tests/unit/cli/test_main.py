"""What has to be set before PyTorch is loaded, signals while it is, and what is printed."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from isopix.cli.console import say, show_json, show_table, warn
from isopix.cli.errors import with_option_names
from isopix.cli.main import _of_file
from isopix.core.signals import _Process, stop_requested
from isopix.core.text import Table

CODE = """
import contextlib, os, sys
import isopix.__main__ as command
assert "torch" not in sys.modules
sys.argv = ["isopix", "--version"]
with contextlib.suppress(SystemExit):
    command.main()
print(os.environ.get("OMP_WAIT_POLICY"), os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({}, "PASSIVE 2000"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None"),
        ({"GOMP_SPINCOUNT": "0"}, "None 0"),
    ],
)
def test_threads_spin_briefly_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], used: str
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == used


RUNNING = "type('main', (), {'main': lambda: s.raise_signal(15)})"
ENDING = "type('main', (), {'main': lambda: m.sys.exit(75)})"


@pytest.mark.parametrize(
    ("sent", "code"), [("s.raise_signal(15)", 75), ("s.raise_signal(2)", 130), (RUNNING, 75), (ENDING, 75)]
)
def test_a_signal_while_the_command_is_imported_or_an_error_is_printed_has_its_exit_code(
    sent: str, code: int
) -> None:
    text = f"import isopix.__main__ as m, signal as s; m.importlib.import_module = lambda _: {sent}; m.main()"
    env = os.environ | ({"RANK": "0", "MASTER_ADDR": "x"} if sent == ENDING else {})
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, env=env)
    assert (done.returncode, done.stderr) == (code, b"")


def test_names_never_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "lat\udce9n\x1b[2J\n[bold]"
    say(hostile)
    warn(hostile)
    show_table(Table(hostile, [hostile[:4], "value"], [(hostile, "1"), ("b", hostile)]))
    show_json({"name": hostile})
    out, err = capsys.readouterr()
    shown = "lat\\xe9n\\x1b[2J\\x0a[bold]"
    assert (out.count(shown), err) == (4, f"{shown}\n")
    assert all(character.isprintable() or character == "\n" for character in out)


def test_characters_that_the_encoding_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    show_table(Table("losses", ["é", "value"], [("✓", "−1")]))
    sys.stdout.flush()
    assert sys.stdout.buffer.getvalue().endswith(b"\\u2713 |    \\u22121\n\n")


def test_output_needs_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from isopix.cli.console import say; say('shown')"
    monkeypatch.delenv("HOME", raising=False)
    lost = "import os, pwd; pwd.getpwuid = {}.__getitem__; "  # as in a container, whose users have no names
    found = subprocess.run([sys.executable, "-c", lost + code], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("shown\n", "")


def test_errors_of_files_and_arguments_are_of_the_options_that_were_typed() -> None:
    for file, is_out in {"a": True, "a/b.png": True, "a/b": False, "other": False}.items():
        assert _of_file(PermissionError(13, "Denied", file), "a/b.png").startswith("--out ") == is_out
    parameters = ("count", "top_k")
    assert with_option_names("count is 0; --counts", parameters, ["-n"]) == "-n is 0; --counts"
    assert with_option_names("count is 0; top_k", parameters) == "--count is 0; --top-k"


@contextmanager
def unread_output(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let standard error be a pipe that nobody reads."""
    for name in ("raised", "received"):
        monkeypatch.setattr(_Process, name, None)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        yield


def test_output_that_nobody_reads_stops_a_training_and_ends_other_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with unread_output(monkeypatch), pytest.raises(SystemExit) as ended:
        warn("lost")
    assert ended.value.code == 141
    with unread_output(monkeypatch), stop_requested() as request:
        warn("lost")
    assert request.signal is signal.SIGHUP
