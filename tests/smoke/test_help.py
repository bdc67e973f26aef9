"""`isopix --help` is instant; every command's page has an example and explains its options."""

import json
import subprocess
import sys

import pytest

from isopix.cli.main import COMMANDS

SUBCOMMANDS = {
    "data": ["show"],
    "palette": ["fit", "import", "show"],
    "recipe": ["list", "show"],
    "convert": ["huggingface", "openai", "to-huggingface"],
    "study": ["inductive-bias"],
}
PAGES = [[name, *([sub] if sub else [])] for name in COMMANDS for sub in ["", *SUBCOMMANDS.get(name, [])]]


def test_the_list_of_commands_imports_no_torch() -> None:
    program = (
        "import sys; sys.argv = ['isopix', '--help']; from isopix.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *page, imported = done.stdout.splitlines()
    assert imported == "False"
    order = [line.split()[1] for line in page if line.startswith("│ ") and line[2] != " "]
    assert order[: len(COMMANDS)] == list(COMMANDS)


# One process shows every page as a process per page would: only isopix.cli.main is imported again.
SHOW = """
import contextlib, io, json, runpy, sys
pages = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["isopix", *words, "--help"]
    sys.modules.pop("isopix.cli.main", None)
    pages.append(io.StringIO())
    with contextlib.redirect_stdout(pages[-1]), contextlib.suppress(SystemExit):
        runpy.run_module("isopix.cli.main", run_name="__main__")
print(json.dumps([page.getvalue() for page in pages]))
"""


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Return the help pages by command."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW, json.dumps(PAGES)],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "200", "TERM": "dumb"},
    )
    return dict(zip(map(" ".join, PAGES), json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_every_page_has_an_example_and_explains_options(words: list[str], pages: dict[str, str]) -> None:
    page = pages[" ".join(words)]
    assert f"Example: isopix {' '.join(words)}" in page
    options = [line.strip("│ *").split("  ") for line in page.splitlines() if line.startswith("│ ")]
    bare = [parts[0] for parts in options if len([part for part in parts if part.strip()]) < 2]
    assert bare == []
    has_numbers = words != ["studio"] and not (words == [words[0]] and words[0] in SUBCOMMANDS)
    assert not has_numbers or any("--json" in parts[0] for parts in options)
