"""Help loads no heavy module; output may be closed or full; words are completed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from isopix.cli.main import COMMANDS
from isopix.verbs import VERBS
from tests.smoke.conftest import Run, done

# Modules that take longer to load than a page of help may.
HEAVY = ["torch", "numpy", "scipy", "sklearn", "matplotlib", "PIL", "pyarrow", "jinja2"]
WRONG = ["--version", "nope", "sample", "sample run --nope", "sample run -n 0"]

# One process shows every page as a process per page would: only isopix.cli.main is imported again.
SHOW = """
import contextlib, importlib, io, json, sys
calls, heavy = map(json.loads, sys.argv[1:])
pages = []
for words in calls:
    sys.argv = ["isopix", *words.split()]
    sys.modules.pop("isopix.cli.main", None)
    pages.append(io.StringIO())
    with contextlib.redirect_stdout(pages[-1]), contextlib.redirect_stderr(pages[-1]):
        with contextlib.suppress(SystemExit):
            importlib.import_module("isopix.cli.main").main()
print(json.dumps([[page.getvalue() for page in pages], [name for name in heavy if name in sys.modules]]))
"""


def test_help_is_in_order_and_loads_no_heavy_module() -> None:
    calls = ["--help", *(f"{word} --help" for word in VERBS), *WRONG]
    done = subprocess.run(
        [sys.executable, "-c", SHOW, json.dumps(calls), json.dumps(HEAVY)],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "400", "TERM": "dumb"},
    )
    pages, loaded = json.loads(done.stdout)
    assert loaded == []
    words = [line.split()[1] for line in pages[0].splitlines() if line.startswith("│ ") and line[2] != " "]
    order = [word for panel in COMMANDS.values() for word in panel]
    assert (words[: len(order)], {*order}) == (order, {*VERBS})
    for word, page in zip(VERBS, pages[1:], strict=False):
        assert f"Example: isopix {word}" in page
    common, of_papers = pages[1 + [*VERBS].index("probe")].split("From the papers")
    assert ("--method" in common, "--concat" in common) == (True, False)
    assert "--concat" in of_papers


ISOPIX = [sys.executable, "-m", "isopix"]
FULL = Path("/dev/full")


@pytest.mark.integration
@pytest.mark.parametrize("word", ["list", "--help"])
def test_a_closed_pipe_has_the_exit_code_of_its_signal(word: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*ISOPIX, word], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.integration
@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_one_line(words: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run([*ISOPIX, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "isopix: standard output: No space left on device\n")


@pytest.mark.integration
def test_a_command_runs_without_standard_streams() -> None:
    words = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *ISOPIX, "--help"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    for stream in ("&-", FULL):
        silent = ["sh", "-c", f'exec "$@" 2>{stream}', "sh", *ISOPIX, "show", "nothing"]
        assert subprocess.run(silent, check=False).returncode == 2


def test_the_completion_of_a_shell_has_commands_options_and_choices(
    isopix: Run, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(workplace))
    path = workplace / ".local/share/bash-completion/completions/isopix"
    assert str(path) in done(isopix("--install-completion", "--shell", "bash"))
    assert str(path) in (workplace / ".bashrc").read_text()
    assert {"pretrain", "data", "--temperature", "--top-k", "validation"} <= {
        *re.findall(r"[\w-]+", path.read_text())
    }
