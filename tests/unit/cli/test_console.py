"""Options shared by all commands."""

from pathlib import Path

import pytest

from isopix.cli.console import load_plugins, plugin_options

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


def test_follow_up_commands_repeat_the_plugins() -> None:
    assert plugin_options([Path("a.py"), Path("b.py")]) == [
        "--plugin",
        Path("a.py"),
        "--plugin",
        Path("b.py"),
    ]
    assert plugin_options(None) == []
