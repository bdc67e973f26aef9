"""Every command and every program of the README and the docs runs: here with less work, and as written."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from isopix.recipes import registry
from tests.smoke.conftest import Run

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in page.parts),
]
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)
CODE = re.compile(r"```\w+\n.*?```", re.DOTALL)
# The folders that commands and functions write, and that must not exist.
OUTPUT = re.compile(
    r"isopix (?:pretrain|finetune|search-lr) (?:[^\n]|\\\n)*?--out (\S+)|isopix convert \S+ \S+ (\S+)"
    r"|\bout=\"(\S+?)\"|(?:to_huggingface|save)\(\w+, \"(\S+?)\""
)
# Of commands that train: as written, then these settings, the last of which count.
LESS = ["steps=2", "batch_size=4", "evaluate_images=8", "num_test_images=8", "precision=fp32"]


def blocks(page: Path, kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text()) if found == kind]


PROGRAMS = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, text in enumerate(blocks(page, "python"))
]
pages = pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "console")], ids=lambda page: page.name
)


def run_commands(isopix: Run, page: Path, *, less: list[str]) -> None:
    """Run all commands of a page in order."""
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ "):
            name, *words = line[2:].split("  #")[0].split()
            assert name == "isopix"
            trains = words[0] in ("pretrain", "finetune")
            code, out, err = isopix(*words, *(less if trains else []))
            assert code == 0, f"{line}\n{out}\n{err}"
            assert "Traceback" not in err


def test_recipes_exist() -> None:
    """Also in blocks that are not run, such as job scripts."""
    text = "\n".join(block for page in PAGES for block in CODE.findall(page.read_text()))
    names = set(re.findall(r"\b(?:igpt|patchformer|vit|isotropic)\.[a-z]\w*(?:-\w+)*", text))
    assert len(names) > 10
    assert names - registry.RECIPES.keys() <= {"igpt.table4", "isotropic.py"}  # a claim, and a file


def test_no_folder_is_written_twice() -> None:
    """All pages can be followed in one working folder."""
    text = "\n".join(block for page in PAGES for block in CODE.findall(page.read_text()))
    folders = Counter("".join(found) for found in OUTPUT.findall(text))
    assert len(folders) > 50
    assert [folder for folder, count in folders.items() if count > 1] == []


@pytest.mark.integration
@pytest.mark.usefixtures("quick_probes", "quick_figures", "known_throughput")
@pages
def test_commands_run(isopix: Run, page: Path) -> None:
    run_commands(isopix, page, less=LESS)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pages
def test_commands_run_as_written(isopix: Run, page: Path) -> None:
    run_commands(isopix, page, less=[])


@pytest.mark.integration
@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_run(text: str) -> None:
    exec(compile(text, "program", "exec"), {"__name__": "__main__"})


@pytest.mark.slow
@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_run_in_a_process_of_their_own(text: str) -> None:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
