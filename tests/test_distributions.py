"""The wheel and the source distribution have all that they need, and nothing else."""

import subprocess
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILT = ("__pycache__", ".egg-info")
NEEDED = (
    "README.md",
    "LICENSE",
    "CITATION.cff",
    "CHANGELOG.md",
    "Makefile",
    "constraints.txt",
    "pyproject.toml",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    wheels = pytest.importorskip("hatchling.builders.wheel", reason="hatchling builds the packages")
    sources = pytest.importorskip("hatchling.builders.sdist")
    out = tmp_path_factory.mktemp("dist")
    return {
        "wheel": Path(next(wheels.WheelBuilder(str(ROOT)).build(directory=str(out), versions=["standard"]))),
        "sdist": Path(next(sources.SdistBuilder(str(ROOT)).build(directory=str(out)))),
    }


@pytest.fixture(scope="module")
def wheel(built: dict[str, Path]) -> dict[str, str]:
    """The files of the wheel, and of its metadata the text."""
    with zipfile.ZipFile(built["wheel"]) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        return {name: archive.read(name).decode() if ".dist-info/" in name else "" for name in names}


def test_the_wheel_has_the_package_with_its_templates_and_types_alone(wheel: dict[str, str]) -> None:
    files = (path for path in (ROOT / "isopix").rglob("*") if path.is_file())
    expected = {str(path.relative_to(ROOT)) for path in files if not any(part in str(path) for part in BUILT)}
    assert {"isopix/py.typed", "isopix/reporting/page.html.j2", "isopix/studio/studio.css"} <= expected
    assert {name for name in wheel if ".dist-info/" not in name} == expected


def test_the_metadata_name_the_license_and_the_command(wheel: dict[str, str]) -> None:
    own = {name.partition(".dist-info/")[2]: text for name, text in wheel.items() if ".dist-info/" in name}
    metadata = message_from_string(own["METADATA"])
    assert metadata["License-Expression"] == "Apache-2.0"
    assert own["licenses/LICENSE"] == (ROOT / "LICENSE").read_text()
    assert "license: Apache-2.0" in (ROOT / "CITATION.cff").read_text()
    assert "isopix = isopix.__main__:main" in own["entry_points.txt"]
    version = (ROOT / "CITATION.cff").read_text().partition("\nversion: ")[2].split()[0]
    assert metadata["Version"] == version


def test_the_source_distribution_has_what_is_tracked(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert names >= set(NEEDED)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("the files of a checkout are compared")
    tracked = {name for name in listed.stdout.splitlines() if not name.startswith((".ci/", ".github/"))}
    there = {name for name in tracked if (ROOT / name).is_file()}
    assert names - {"PKG-INFO"} == there | (names & untracked())


def untracked() -> set[str]:
    """New files of a working tree, which are not committed yet."""
    command = ["git", "ls-files", "--others", "--exclude-standard"]
    return set(
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    )
