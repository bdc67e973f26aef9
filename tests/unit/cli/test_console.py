"""Options shared by all commands."""

from pathlib import Path

import pytest

from isopix.cli.console import (
    follow_up_options,
    load_plugins,
    say,
    show_json,
    show_table,
    warn,
)
from isopix.core.text import command_line

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


def test_follow_up_commands_repeat_the_options_that_still_apply() -> None:
    files, slurm = [Path("a.py"), Path("b.py")], ["partition=gpu", "timeout_min=60"]
    found = follow_up_options(plugin=files, device="cpu", devices=2, logger=["tensorboard"], slurm=slurm)
    assert command_line(*found) == (
        "isopix --plugin a.py --plugin b.py --device cpu --devices 2 --logger tensorboard "
        "--slurm partition=gpu timeout_min=60"
    )
    assert follow_up_options(plugin=None) == []


def test_names_never_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "lat\udce9n\x1b[2J\n[bold]"
    say(hostile)
    warn(hostile)
    show_table(hostile, [hostile[:4], "value"], [(hostile, "1"), ("b", hostile)])
    show_json({"name": hostile})
    out, err = capsys.readouterr()
    shown = "lat\\xe9n\\x1b[2J\\x0a[bold]"
    assert (out.count(shown), err) == (4, f"{shown}\n")
    assert all(character.isprintable() or character == "\n" for character in out)
