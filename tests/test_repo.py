"""Laws about the source itself."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "isopix"
# Packages of one level do not import each other; each imports only what stands before it.
LEVELS = [
    ["core"],
    ["storage"],
    ["data", "codecs"],
    ["model"],
    ["objectives"],
    ["train"],
    ["probe"],
    ["finetune", "generate", "analysis"],
    ["recipes"],
    ["runs"],
    ["interop"],
    ["plots"],
    ["papers"],
    ["report"],
    ["studies"],
    ["api"],
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


def packages(code: ast.Module) -> set[str]:
    """Of isopix, those that are imported: `import isopix.cli.main`, `from isopix.cli import main`, `from
    isopix import cli`; what `isopix` itself defines is of no package.
    """
    modules = []
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
    parts = (module.split(".") for module in modules)
    return {each[1] for each in parts if each[0] == "isopix" and len(each) > 1} & LEVEL.keys()


@pytest.mark.parametrize(
    "line",
    [
        "import isopix.cli.main",
        "from isopix.cli import main",
        "from isopix import cli",
        "from isopix import cli as c",
    ],
)
def test_every_form_of_import_is_seen(line: str) -> None:
    assert packages(ast.parse(line)) == {"cli"}


@pytest.mark.parametrize("path", INSIDE, ids=name)
def test_imports_point_down(path: Path) -> None:
    here = path.relative_to(PACKAGE).parts[0]
    above = {there for there in packages(tree(path)) if there != here and LEVEL[there] >= LEVEL[here]}
    assert not above, f"{here} may not import {', '.join(above)}"


def test_every_package_has_its_level() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} <= LEVEL.keys()


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


def unsatisfied(asked: list[str], pinned: list[str]) -> list[str]:
    """The requirements for which no pinned version is allowed; those of another system do not count."""
    versions = {canonicalize_name(pin.split("==")[0]): pin.split("==")[1].strip() for pin in pinned}
    found = []
    for requirement in map(Requirement, asked):
        version = versions.get(canonicalize_name(requirement.name))
        needed = requirement.marker is None or requirement.marker.evaluate()
        if needed and (version is None or not requirement.specifier.contains(version, prereleases=True)):
            found.append(f"{requirement} but {version}")
    return found


def test_pinned_versions_satisfy_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line.split(";")[0] for line in lines if "==" in line and not line.startswith("#")]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert unsatisfied(asked, pinned) == []


@pytest.mark.parametrize("pinned", ["Some_Package==1.9", "another==2.0"])
def test_a_pin_that_is_too_old_or_missing_is_seen(pinned: str) -> None:
    assert unsatisfied(["some-package>=2,<3"], [pinned]) != []
    assert unsatisfied(["some-package>=2,<3"], ["Some_Package==2.1+cpu"]) == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=name)
def test_every_test_that_the_documentation_cites_is_there(page: Path) -> None:
    cited = re.findall(r"\btests/[\w/.-]+\.py\b", page.read_text())
    assert [path for path in cited if not (ROOT / path).is_file()] == []


def test_tables_of_the_documentation_are_what_their_files_say() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
