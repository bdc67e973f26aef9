"""Every command and program of the README, the docs and the notebook runs; the reference is complete."""

import json
import re
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import isopix
from isopix import parts
from isopix.core.config import to_dict
from isopix.core.overrides import flatten
from isopix.recipes import registry
from isopix.runs.load import shipped_models
from isopix.verbs import VERBS
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
    r"isopix (?:pretrain|finetune) (?:[^\n]|\\\n)*?--out (\S+)|isopix import \S+ (\S+)"
    r"|\bout=\"(\S+?)\"|(?:to_huggingface|save)\(\w+, \"(\S+?)\""
)
# Of commands that train: as written, then these settings, the last of which count.
LESS = ["steps=2", "batch_size=4", "evaluate_images=8", "num_test_images=8", "precision=fp32"]
SHORTER = {
    "--subsets 3": "--subsets 1",
    "sample igpt.tiny-cifar10": "sample igpt.digits-trained",
    "complete igpt.tiny_bert-cifar10": "complete igpt.tiny_bert-cifar10 --each 1",
}


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


def run_commands(isopix: Run, text: str, *, less: list[str]) -> None:
    for line in text.splitlines():
        if line.startswith("$ "):
            name, *words = line[2:].split("  #")[0].split()
            assert name == "isopix"
            shorter = words[0] in ("pretrain", "finetune") and "lr=search" not in line  # which has to learn
            code, out, err = isopix(*words, *(less if shorter else []))
            assert code == 0, f"{line}\n{out}\n{err}"
            assert "Traceback" not in err


def test_recipes_exist() -> None:
    """Also in blocks that are not run, such as job scripts."""
    text = "\n".join(block for page in PAGES for block in CODE.findall(page.read_text()))
    names = set(re.findall(r"\b(?:igpt|patchformer|vit|isotropic)\.[a-z]\w*(?:-\w+)*", text))
    assert len(names) > 10
    known = registry.RECIPES.keys() | shipped_models().keys()
    assert names - known <= {"igpt.table4", "isotropic.study"}  # protocols


def test_no_folder_is_written_twice() -> None:
    """All pages can be followed in one working folder."""
    text = "\n".join(block for page in PAGES for block in CODE.findall(page.read_text()))
    folders = Counter("".join(found) for found in OUTPUT.findall(text))
    assert len(folders) > 50
    assert [folder for folder, count in folders.items() if count > 1] == []


@pytest.mark.integration
@pytest.mark.usefixtures("quick_probes", "quick_figures", "known_throughput", "unchecked")
@pages
def test_commands_run(isopix: Run, page: Path) -> None:
    text = "".join(blocks(page, "console"))
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    run_commands(isopix, text, less=LESS)


@pytest.mark.slow
@pytest.mark.timeout(2700)  # a page trains for 15 minutes with one thread
@pytest.mark.usefixtures("unchecked")
@pages
def test_commands_run_as_written(isopix: Run, page: Path) -> None:
    run_commands(isopix, "".join(blocks(page, "console")), less=[])


@pytest.mark.integration
@pytest.mark.usefixtures("workplace", "unchecked")
@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_run(text: str) -> None:
    exec(compile(text, "program", "exec"), {"__name__": "__main__"})


NOTEBOOK = Path(__file__).parents[2] / "examples" / "isopix.ipynb"
CELLS = json.loads(NOTEBOOK.read_text())["cells"]
CELL_CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


def run(cells: list[str]) -> dict[str, Any]:
    """Run all cells; return the names that they define."""
    names: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, "cell", "exec"), names)
    return names


@pytest.mark.integration
def test_it_is_saved_without_outputs() -> None:
    assert [cell for cell in CELLS if cell.get("outputs") or cell.get("execution_count")] == []


def test_the_notebook_cites_the_measured_accuracies() -> None:
    text = "".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
    cited = {*re.findall(r"[\d.]+%", text)}
    assert len(cited) == 4
    assert cited <= set(re.findall(r"[\d.]+%", (ROOT / "README.md").read_text()))


@pytest.mark.integration
@pytest.mark.usefixtures("workplace", "quick_probes", "quick_figures", "known_throughput")
def test_cells_run() -> None:
    short = [
        cell.replace('"steps=600"', '"steps=2", "data.placements=2"').replace("subsets=3", "subsets=1")
        for cell in CELL_CODE
    ]
    assert short != CELL_CODE
    names = run(short)
    assert names["report"].path.is_file()


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("workplace")
def test_cells_run_as_written() -> None:
    run(CELL_CODE)


SOURCE = Path(__file__).parents[2] / "docs" / "reference_pages.py"


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return runpy.run_path(str(SOURCE))


@pytest.fixture(scope="module")
def written(reference: dict[str, Any]) -> dict[str, str]:
    return dict(reference["pages"]())


def test_every_command_has_a_page_with_its_options(written: dict[str, str]) -> None:
    expected = {f"commands/{name}.md" for name in VERBS}
    assert {name for name in written if "commands/" in name} == expected
    assert "--probe-every INT" in written["commands/pretrain.md"]
    assert "$ isopix pretrain igpt.tiny" in written["commands/pretrain.md"]
    assert not any("--empty-" in page for page in written.values())  # which no command takes


@pytest.mark.parametrize("recipe", sorted(registry.SINGLE))
def test_every_setting_of_every_recipe_is_described(recipe: str, written: dict[str, str]) -> None:
    known = {line.split("`")[1] for line in written["settings.md"].splitlines() if line.startswith("| `")}
    settings = flatten(to_dict(registry.find(recipe)))
    groups = ("model.", "data.", "train.", "objective.")
    paths = {path for path in settings if path.startswith(groups) and not path.endswith(".kind")}
    assert paths - known == set()


def test_every_part_and_name_is_there(written: dict[str, str]) -> None:
    for path in ("model.block", "objective.mask", "train.optimizer"):
        assert all(f"### {path}={kind}" in written["settings.md"] for kind in parts.kinds(path.split(".")[1]))
    names = set(isopix.__all__) - {"__version__", "parts"}
    assert all(f":: isopix.{name}\n" in written["api.rst"] for name in names)


def test_code_in_docstrings_becomes_literals(reference: dict[str, Any]) -> None:
    assert reference["rst"]("`a*b` takes *.md and import_") == "``a*b`` takes \\*.md and import\\_"
