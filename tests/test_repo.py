"""Laws about the source itself; each test lists every offender."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "isopix"
# Packages of one level do not import each other; each imports only from those before it.
LEVELS = [
    ["core"],
    ["storage"],
    ["data", "codecs", "plots"],
    ["model"],
    ["objectives"],
    ["train", "generate"],
    ["probing"],
    ["finetuning", "analysis"],
    ["recipes"],
    ["runs"],
    ["reporting", "interop", "pretrained"],
    ["studies", "studio"],
    ["verbs"],
    ["cli"],
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
QUERYING = PACKAGE / "core" / "device.py"
FILES = sorted(PACKAGE.rglob("*.py"))
INSIDE = [path for path in FILES if path.parent != PACKAGE]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in page.parts),  # generated
]
# Packages that only some users need, or that take long to load; they may be imported where they are used.
HEAVY = {"transformers", "huggingface_hub", "datasets", "tensorboard", "submitit", "sklearn", "matplotlib"}
HEAVY |= {"wandb", "pillow_heif", "umap", "faiss", "onnxruntime", "onnxscript", "skimage"}
HEAVY |= {"gradio", "gradio_page", "studio"}  # and the modules of the page, which import it
HEAVY |= {"distributed", "sharded"}  # PyTorch's engines for many devices, and the module that uses them
HEAVY |= {"device"}  # of `core`, for the launcher, whose help needs no torch
# British spellings, and "data set"; PyTorch, NumPy and Hugging Face write American ones, and "dataset".
BRITISH = re.compile(
    r"\b(\w*colour\w*|grey\w*|optimis\w+|normalis\w+|initialis\w+|analys(e|ed|ing)\b|centre\w*|behaviour\w*"
    r"|neighbour\w*|learnt|factoris\w+|standardis\w+|penalis\w+|generalis\w+|utilis\w+|labelled|modell\w+"
    r"|data[- ]sets?\b)",
    re.IGNORECASE,
)
# The purposes of random streams never change, so that old seeds draw the same numbers.
PURPOSE = re.compile(r"\bgenerator\([^\"]*\"\w+\"")
MAX_LINES, MAX_BODY = 300, 40
LINES = {"isopix": 39_659, "tests": 26_749, "bench": 5_986}  # in all, lowered by each change
CHARACTERS, BLANK = 54, 0.15  # of a line that is not blank, in the mean at most; of blank lines at least


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(code: ast.AST) -> set[str]:
    """The rooms of isopix that are imported: `import isopix.cli.main`, `from isopix.cli import main`, `from
    isopix import cli`; what `isopix` itself defines is of no room.
    """
    modules = []
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
    parts = (module.split(".") for module in modules)
    return {each[1] for each in parts if each[0] == "isopix" and len(each) > 1} & LEVEL.keys()


def public(path: Path) -> list[ast.FunctionDef | ast.ClassDef]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node for node in tree(path).body if isinstance(node, kinds) and not node.name.startswith("_")]


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef))


def test_files_are_short() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in [*FILES, *TESTS]}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_the_package_becomes_smaller_and_its_lines_do_not_become_denser() -> None:
    texts = {room: [path.read_text() for path in (ROOT / room).rglob("*.py")] for room in LINES}
    lines = {room: sum(text.count("\n") for text in each) for room, each in texts.items()}
    assert {room: count for room, count in lines.items() if count > LINES[room]} == {}
    package = "".join(texts["isopix"]).splitlines()
    filled = [line for line in package if line.strip()]
    assert sum(map(len, filled)) / len(filled) <= CHARACTERS
    assert 1 - len(filled) / len(package) >= BLANK


def test_imports_point_down() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} <= LEVEL.keys()
    lines = ["import isopix.cli.main", "from isopix.cli import main", "from isopix import cli as c"]
    assert all(imported(ast.parse(line)) == {"cli"} for line in lines)
    above = {}
    for path in INSIDE:
        here = path.relative_to(PACKAGE).parts[0]
        wrong = {room for room in imported(tree(path)) - {here} if LEVEL[room] >= LEVEL[here]}
        if wrong:
            above[name(path)] = wrong
    assert above == {}


def test_nothing_is_imported_inside_a_function_but_heavy_packages() -> None:
    inside = {
        f"{name(path)}:{node.lineno}"
        for path in FILES
        if path.parent.name != "verbs"  # so that help needs no torch
        for function in functions(path)
        if function.name != "figures"  # matplotlib is slow to load
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and not {alias.name.split(".")[0] for alias in node.names} & HEAVY
        and not {*(getattr(node, "module", None) or "").split(".")} & HEAVY
    }
    assert inside == set()


def test_only_one_room_prints_draws_or_asks_for_cuda() -> None:
    printing = {
        name(path)
        for path in INSIDE
        if "cli" not in path.parts
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    drawing = {
        name(path) for path in INSIDE if "plots" not in path.parts and "matplotlib" in path.read_text()
    }
    asking = {name(path) for path in FILES if path != QUERYING and "torch.cuda" in path.read_text()}
    assert (printing, drawing, asking) == (set(), set(), set())


def test_files_and_public_functions_have_docstrings() -> None:
    bare = [name(path) for path in FILES if not ast.get_docstring(tree(path))]
    bare += [
        f"{name(path)}: {node.name}"
        for path in FILES
        for node in public(path)
        if isinstance(node, ast.FunctionDef) and not ast.get_docstring(node)
    ]
    assert bare == []


def test_functions_fit_on_a_screen() -> None:
    """The body after the docstring: a signature and its documentation may take what they need."""
    long = {}
    for path in FILES:
        for node in functions(path):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            lines = (node.end_lineno or 0) - first.lineno + 1
            if lines > MAX_BODY:
                long[f"{name(path)}: {node.name}"] = lines
    assert long == {}


def test_a_public_name_is_defined_in_one_module() -> None:
    places = defaultdict(list)
    for path in INSIDE:
        if path.parent.name != "recipes":  # a recipe is a function by the name of its model's size
            for node in public(path):
                places[node.name].append(path)
    repeated = {word: list(map(name, paths)) for word, paths in places.items() if len(paths) > 1}
    assert repeated == {}


def test_spelling_is_american() -> None:
    texts = [*FILES, *PAGES, *sorted(PACKAGE.rglob("*.j2")), *sorted((ROOT / "bench").glob("*.py"))]
    texts += sorted((ROOT / "examples").rglob("*.py"))
    found = {
        f"{name(path)}:{number}": match.group()
        for path in texts
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if (match := BRITISH.search(PURPOSE.sub("", line)))
    }
    assert found == {}


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
    assert unsatisfied(["some-package>=2,<3"], ["Some_Package==1.9"]) != []
    assert unsatisfied(["some-package>=2,<3"], ["another==2.0"]) != []
    assert unsatisfied(["some-package>=2,<3"], ["Some_Package==2.1+cpu"]) == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line.split(";")[0] for line in lines if "==" in line and not line.startswith("#")]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["dev"], *extras["docs"]]
    assert unsatisfied(asked, pinned) == []


def test_the_documentation_cites_tests_and_tables_that_are_there() -> None:
    cited = {
        f"{name(page)}: {path}"
        for page in PAGES
        for path in re.findall(r"\btests/[\w/.-]+\.py\b", page.read_text())
        if not (ROOT / path).is_file()
    }
    assert cited == set()
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
