"""Laws about the source itself."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "isopix"
# Packages of one level do not import each other; each imports only what stands before it.
LEVELS = [
    ["core"],
    ["data", "codecs"],
    ["model"],
    ["objectives"],
    ["train"],
    ["transfer", "generate", "interop"],
    ["analysis"],
    ["plots"],
    ["report"],
    ["recipes"],
    ["runs"],
    ["papers"],
    ["studio", "cli"],
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
FILES = sorted(PACKAGE.rglob("*.py"))
INSIDE = [path for path in FILES if path.parent != PACKAGE]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@pytest.mark.parametrize("path", [*FILES, *sorted((ROOT / "tests").rglob("*.py"))], ids=name)
def test_file_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", INSIDE, ids=name)
def test_imports_point_down(path: Path) -> None:
    here = path.relative_to(PACKAGE).parts[0]
    for node in ast.walk(tree(path)):
        modules = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for module in modules:
            parts = module.split(".")
            if parts[0] == "isopix" and len(parts) > 1:
                there = parts[1]
                assert there == here or LEVEL[there] < LEVEL[here], f"{here} may not import {there}"


@pytest.mark.parametrize("path", [path for path in INSIDE if "cli" not in path.parts], ids=name)
def test_only_the_command_line_prints(path: Path) -> None:
    called = {
        node.func.id
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and hasattr(node.func, "id")
    }
    assert "print" not in called


@pytest.mark.parametrize("path", [path for path in INSIDE if "plots" not in path.parts], ids=name)
def test_only_plots_draw(path: Path) -> None:
    assert "matplotlib" not in path.read_text()


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "device.py"], ids=name)
def test_only_one_file_asks_for_cuda(path: Path) -> None:
    assert "torch.cuda" not in path.read_text()


@pytest.mark.parametrize("path", FILES, ids=name)
def test_file_defines_its_idea(path: Path) -> None:
    assert ast.get_docstring(tree(path))


def public(path: Path) -> list[ast.FunctionDef | ast.ClassDef]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node for node in tree(path).body if isinstance(node, kinds) and not node.name.startswith("_")]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_public_functions_say_what_they_do(path: Path) -> None:
    bare = [
        node.name
        for node in public(path)
        if isinstance(node, ast.FunctionDef) and not ast.get_docstring(node)
    ]
    assert bare == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_functions_fit_on_a_screen(path: Path) -> None:
    """The body after the docstring: a signature and its documentation may take what they need."""
    functions = [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef)]
    lengths = {}
    for node in functions:
        first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
        lengths[node.name] = node.end_lineno - first.lineno + 1
    assert {key: length for key, length in lengths.items() if length > 40} == {}


def test_pinned_versions_satisfy_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower() for line in lines if line and not line.startswith("#")}
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=;\[ ]", item)[0].lower() for item in asked}
    assert names <= pinned


def test_tables_of_the_documentation_are_what_their_files_say() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
