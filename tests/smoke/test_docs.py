"""Every command and every program of the README and the docs runs as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.smoke.conftest import Run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)


def blocks(page: Path, kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text()) if found == kind]


PROGRAMS = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, text in enumerate(blocks(page, "python"))
]


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("quick_probes")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "console")], ids=lambda page: page.name
)
def test_commands_run_as_written(isopix: Run, page: Path) -> None:
    """Run all commands of a page in order."""
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ "):
            name, *words = line[2:].split("  #")[0].split()
            assert name == "isopix"
            code, out, err = isopix(*words)
            assert code == 0, f"{line}\n{out}\n{err}"
            assert "Traceback" not in err


@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_run_as_written(workplace: Path, text: str) -> None:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
