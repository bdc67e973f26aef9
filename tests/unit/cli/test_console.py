"""Options shared by all commands."""

import pytest

from isopix.cli.console import say, show, show_json, warn
from isopix.core.text import Table


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
