"""The wheel and the source distribution have all that they need, and nothing else."""

import subprocess
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = {"README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "Makefile", "constraints.txt"}
# What lies in a working folder after a while, beside the files of the project.
STRAYS = (
    "isopix/notes.txt",
    "isopix/train/loop.py~",
    "isopix/train/.ipynb_checkpoints/loop-checkpoint.py",
    "isopix/train/features.npy",
    "isopix/shipped/igpt.digits-trained/checkpoints/step-00000400/optimizer.safetensors",
    "notes.txt",
    ".env",
    "core",
    "runs/digits/log.jsonl",
    "dist/isopix_pretraining-0.0.1.tar.gz",
    "docs/reference/api.md",
    "examples/runs/digits/recipe.json",
    "tests/.pytest_cache/v/cache/lastfailed",
    "tests/.hypothesis/unicode_data/x.json.gz",
    ".venv-lowest/lib/python3.11/site-packages/torch/__init__.py",
)


def build(root: Path, out: Path, kind: str) -> Path:
    if kind == "wheel":
        wheels = pytest.importorskip("hatchling.builders.wheel", reason="hatchling builds the packages")
        return Path(next(wheels.WheelBuilder(str(root)).build(directory=str(out), versions=["standard"])))
    sources = pytest.importorskip("hatchling.builders.sdist", reason="hatchling builds the packages")
    return Path(next(sources.SdistBuilder(str(root)).build(directory=str(out))))


def contents(path: Path) -> dict[str, bytes]:
    """Return the files of a wheel, or of a source distribution without its first folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    with tarfile.open(path) as archive:
        files = ((member.name.partition("/")[2], archive.extractfile(member)) for member in archive)
        return {name: file.read() for name, file in files if file}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return contents(build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


def listed(*options: str) -> set[str]:
    """The files of the checkout, of those that are there; skips where there is no Git."""
    command = ["git", "ls-files", *options]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("the files of a checkout are compared")
    return {name for name in found.stdout.splitlines() if (ROOT / name).is_file()}


def untracked() -> set[str]:
    """New files of a working tree, which are not committed yet."""
    return listed("--others", "--exclude-standard")


def test_the_wheel_has_the_package_with_its_templates_and_types_alone(wheel: dict[str, bytes]) -> None:
    names = {name for name in wheel if ".dist-info/" not in name}
    assert {"isopix/py.typed", "isopix/reporting/page.html.j2", "isopix/studio/studio.css"} <= names
    assert names - untracked() == {name for name in listed() if name.startswith("isopix/")}


def test_the_metadata_name_the_license_and_the_command(wheel: dict[str, bytes]) -> None:
    own = {name.partition(".dist-info/")[2]: text for name, text in wheel.items() if ".dist-info/" in name}
    metadata = message_from_string(own["METADATA"].decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert own["licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert "license: Apache-2.0" in (ROOT / "CITATION.cff").read_text()
    assert b"isopix = isopix.__main__:main" in own["entry_points.txt"]
    version = (ROOT / "CITATION.cff").read_text().partition("\nversion: ")[2].split()[0]
    assert (metadata["Name"], metadata["Version"]) == ("isopix-pretraining", version)


def test_the_source_distribution_has_what_is_tracked(sdist: Path) -> None:
    names = contents(sdist).keys()
    assert names >= NEEDED
    tracked = {name for name in listed() if not name.startswith((".ci/", ".github/"))}
    assert names - {"PKG-INFO"} - untracked() == tracked


def test_the_source_distribution_builds_the_same_without_what_is_not_of_the_project(
    sdist: Path, wheel: dict[str, bytes], tmp_path: Path
) -> None:
    """In a copy of the source without Git, which hides some files from a build."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (copy,) = tmp_path.iterdir()
    (copy / "PKG-INFO").unlink()
    (copy / ".gitignore").unlink()
    before = contents(sdist).keys() - {".gitignore"}
    for name in STRAYS:
        assert not (copy / name).exists()
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("not of the project")
    assert contents(build(copy, tmp_path, "sdist")).keys() - before == set()
    again = contents(build(copy, tmp_path, "wheel"))
    assert again.keys() == wheel.keys()
    assert [name for name in wheel if again[name] != wheel[name]] == []
