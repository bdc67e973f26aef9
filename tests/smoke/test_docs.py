"""Every command and every program of the README and the documentation runs as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- slow -->\n)?```(console|python)\n(.*?)```", re.DOTALL)


def blocks(kind: str) -> list:
    """Each block of a kind as a test parameter; those marked slow are slow tests."""
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text())):
            if match[2] == kind:
                marks = [pytest.mark.slow] if match[1] else []
                found.append(pytest.param(match[3], id=f"{page.name}-{number}", marks=marks))
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("text", blocks("console"))
def test_commands_run_as_written(workplace: Path, text: str) -> None:
    for line in text.splitlines():
        if line.startswith("$ "):
            words = line[2:].split("  #")[0].split()
            assert words[0] == "isopix"
            command = [sys.executable, "-m", "isopix.cli.main", *words[1:]]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", blocks("python"))
def test_programs_run_as_written(workplace: Path, text: str) -> None:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
