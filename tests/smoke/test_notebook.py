"""The notebook runs, cell by cell in one namespace: here with a shorter training, and as written."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration

NOTEBOOK = Path(__file__).parents[2] / "examples" / "isopix.ipynb"
CELLS = json.loads(NOTEBOOK.read_text())["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


def run(cells: list[str]) -> dict[str, Any]:
    """Run all cells; return the names that they define."""
    names: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, "cell", "exec"), names)
    return names


def test_it_is_saved_without_outputs() -> None:
    assert [cell for cell in CELLS if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.mark.usefixtures("workplace", "quick_probes", "quick_figures", "known_throughput")
def test_cells_run() -> None:
    short = [cell.replace("steps=200", "steps=2").replace("subsets=3", "subsets=1") for cell in CODE]
    assert short != CODE
    names = run(short)
    assert names["report"].path.is_file()
    assert len(list(names["images"].rglob("*.png"))) == 1797


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("workplace")
def test_cells_run_as_written() -> None:
    run(CODE)
