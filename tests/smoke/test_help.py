"""`isopix --help` is instant; every command's page has an example and explains its options."""

import json
import subprocess
import sys

import pytest

from isopix.cli.main import ORDER

SUBCOMMANDS = {
    "data": ["show"],
    "palette": ["fit", "import", "show"],
    "recipe": ["list", "show"],
    "convert": ["huggingface", "openai", "to-huggingface"],
    "study": ["inductive-bias"],
}
PAGES = [
    [name, *([sub] if sub else [])] for name in ORDER.split() for sub in ["", *SUBCOMMANDS.get(name, [])]
]


# Modules that take longer to load than a page of help may.
HEAVY = ["torch", "numpy", "scipy", "sklearn", "matplotlib", "PIL", "pyarrow", "jinja2"]


def test_commands_are_listed_in_the_order_in_which_they_are_needed(pages: dict[str, str]) -> None:
    lines = [line for line in pages[""].splitlines() if line.startswith("│ ") and line[2] != " "]
    assert [line.split()[1] for line in lines][: len(ORDER.split())] == ORDER.split()


# One process shows every page as a process per page would: only isopix.cli.main is imported again.
SHOW = """
import contextlib, importlib, io, json, runpy, sys
all_pages, modules, heavy = map(json.loads, sys.argv[1:])
for name in modules:
    importlib.import_module(name)
pages = []
for words in all_pages:
    sys.argv = ["isopix", *words]
    sys.modules.pop("isopix.cli.main", None)
    pages.append(io.StringIO())
    with contextlib.redirect_stdout(pages[-1]), contextlib.redirect_stderr(pages[-1]):
        with contextlib.suppress(SystemExit):
            runpy.run_module("isopix.cli.main", run_name="__main__")
print(json.dumps([[page.getvalue() for page in pages], [name for name in heavy if name in sys.modules]]))
"""
OTHER_WORDS = [["--version"], ["nope"], ["sample"], ["sample", "run", "--nope"], ["sample", "run", "-n", "0"]]


def show(calls: list[list[str]], modules: list[str], **environment: str) -> tuple[list[str], list[str]]:
    """Return what calls print, and which heavy modules are loaded after them; `modules` are loaded before."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *map(json.dumps, (calls, modules, HEAVY))],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "400", "TERM": "dumb"} | environment,
    )
    printed, loaded = json.loads(done.stdout)
    return printed, loaded


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Return the help pages by command."""
    words = [[], *PAGES]
    printed, _ = show([[*each, "--help"] for each in words], [])
    return dict(zip(map(" ".join, words), printed, strict=True))


def test_help_and_wrong_words_are_answered_without_heavy_modules() -> None:
    _, loaded = show([["--help"], *([*words, "--help"] for words in PAGES), *OTHER_WORDS], [])
    assert loaded == []


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_every_page_has_an_example_and_explains_options(words: list[str], pages: dict[str, str]) -> None:
    page = pages[" ".join(words)]
    is_group = words[0] in SUBCOMMANDS and len(words) == 1
    assert is_group or f"Example: isopix {' '.join(words)}" in page
    options = [line.strip("│ *").split("  ") for line in page.splitlines() if line.startswith("│ ")]
    bare = [parts[0] for parts in options if len([part for part in parts if part.strip()]) < 2]
    assert bare == []
    assert is_group or any("--json" in parts[0] for parts in options)
