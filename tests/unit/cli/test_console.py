"""Options shared by all commands."""

from pathlib import Path

import pytest

from isopix.cli.console import load_plugins, say, show, show_json, warn
from isopix.core.table import Table

PART = """
from isopix import parts

@parts.register({0!r})
class Added(parts.ScheduleSpec):
    def factor(self, step, steps):
        return 1.0
"""


def test_plugins_are_imported_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    log = tmp_path / "log"
    for path in (first, second):
        path.write_text(
            f"with open({str(log)!r}, 'a') as log:\n    log.write('{path.stem} ')\n" + PART.format(path.stem)
        )
    load_plugins([first, second])
    assert log.read_text() == "first second "


def test_a_plugin_must_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.py is not a file"):
        load_plugins([tmp_path / "nowhere.py"])


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
