"""What has to be set before PyTorch is loaded, signals while it is, and what is printed."""

import subprocess
import sys

import pytest

from isopix.cli.console import say, show, show_json, warn
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


@pytest.mark.parametrize(("sent", "code"), [("raise_signal(15)", 75), ("raise_signal(2)", 130)])
def test_a_signal_while_the_command_is_imported_has_its_exit_code(sent: str, code: int) -> None:
    text = (
        f"import isopix.__main__ as m, signal as s; m.importlib.import_module = lambda _: s.{sent}; m.main()"
    )
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == code


def test_names_never_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "lat\udce9n\x1b[2J\n[bold]"
    say(hostile)
    warn(hostile)
    show(Table(hostile, [hostile[:4], "value"], [(hostile, "1"), ("b", hostile)]))
    show_json({"name": hostile})
    out, err = capsys.readouterr()
    shown = "lat\\xe9n\\x1b[2J\\x0a[bold]"
    assert (out.count(shown), err) == (4, f"{shown}\n")
    assert all(character.isprintable() or character == "\n" for character in out)
