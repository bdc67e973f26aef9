"""`isopix --help` is instant; every command's page has an example and explains its options."""

import functools
import importlib
import inspect
import json
import re
import subprocess
import sys

import docstring_parser
import pytest
from cyclopts import App, Parameter

from isopix.cli.main import COMMANDS, ORDER

SUBCOMMANDS = {
    "data": ["show"],
    "palette": ["fit", "import", "show"],
    "recipe": ["list", "show"],
    "convert": ["huggingface", "openai", "to-huggingface"],
    "study": ["inductive-bias"],
}
PAGES = [[name, *([sub] if sub else [])] for name in COMMANDS for sub in ["", *SUBCOMMANDS.get(name, [])]]


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
        env={"COLUMNS": "200", "TERM": "dumb"} | environment,
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


def test_help_is_that_of_the_modules_of_the_commands(pages: dict[str, str]) -> None:
    modules = sorted({target.partition(":")[0] for target, _ in COMMANDS.values()})
    printed, loaded = show([[*words, "--help"] for words in PAGES], modules)
    assert "torch" in loaded
    assert dict(zip(map(" ".join, PAGES), printed, strict=True)).items() <= pages.items()


HELP_OF_GROUPS = """
import importlib, json
from isopix.cli.main import COMMANDS, ORDER
found = {}
for name, (target, _) in COMMANDS.items():
    module, _, own = target.partition(":")
    if own == "app":
        found[name] = importlib.import_module(module).app.help or ""
print(json.dumps(found))
"""


@functools.cache
def help_of_groups() -> dict[str, str]:
    """Return the help of each group of commands; in this process another test may have registered it since,
    which gives it the text of the list of commands.
    """
    done = subprocess.run([sys.executable, "-c", HELP_OF_GROUPS], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def sentences(words: list[str]) -> list[str]:
    """Return the paragraphs of a command's docstring, and what is said of each parameter."""
    module, _, name = COMMANDS[words[0]][0].partition(":")
    found = getattr(importlib.import_module(module), name)
    function = found
    if isinstance(found, App):
        function = found[words[1]].default_command if words[1:] else None
    if function is None:
        return help_of_groups()[words[0]].split("\n\n")
    told = docstring_parser.parse(inspect.cleandoc(function.__doc__ or ""))
    paragraphs = [told.short_description or "", *(told.long_description or "").split("\n\n")]
    paragraphs += [each.description or "" for each in told.params]
    for parameter in inspect.signature(function).parameters.values():
        notes = getattr(parameter.annotation, "__metadata__", ())
        helps = [note.help for note in notes if isinstance(note, Parameter) and note.help]
        paragraphs += helps[-1:]
    return paragraphs


def in_order(words: list[str], shown: list[str]) -> bool:
    """Whether the words are shown one after another; names of options may be between them."""
    rest = iter(shown)
    return all(word in rest for word in words)


@pytest.mark.parametrize("width", ["80", "200"])
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_no_character_of_a_description_is_lost(width: str, terminal: bool) -> None:
    color = {"FORCE_COLOR": "1", "TERM": "xterm-256color"} if terminal else {}
    printed, _ = show([[*words, "--help"] for words in PAGES], [], COLUMNS=width, **color)
    lost = {}
    for words, page in zip(PAGES, printed, strict=True):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", page).replace("│", " ").split()
        missing = [each for each in sentences(words) if not in_order(each.replace("`", "").split(), shown)]
        if missing:
            lost[" ".join(words)] = missing
    assert lost == {}


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_every_page_has_an_example_and_explains_options(words: list[str], pages: dict[str, str]) -> None:
    page = pages[" ".join(words)]
    assert f"Example: isopix {' '.join(words)}" in page
    options = [line.strip("│ *").split("  ") for line in page.splitlines() if line.startswith("│ ")]
    bare = [parts[0] for parts in options if len([part for part in parts if part.strip()]) < 2]
    assert bare == []
    has_numbers = words != ["studio"] and not (words == [words[0]] and words[0] in SUBCOMMANDS)
    assert not has_numbers or any("--json" in parts[0] for parts in options)
