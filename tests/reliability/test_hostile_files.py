"""T12 and T13: no file of data or settings runs code, crashes a reader, or takes much time or memory."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.reliability.hostile import mutated, payloads, problem, readers, write_valid


@pytest.fixture
def valid(tmp_path: Path) -> Path:
    """The folder of valid files, each in a folder of its name."""
    folder = tmp_path / "valid"
    folder.mkdir()
    write_valid(folder)
    return folder


def test_the_files_that_are_mutated_are_valid(valid: Path, tmp_path: Path) -> None:
    for name, reader in readers(tmp_path / "cache").items():
        reader(valid / name / name)


def _problems(valid: Path, tmp_path: Path, files: list[tuple[str, bytes]]) -> list[str]:
    cache = tmp_path / "cache"
    found, known = [], readers(cache)
    for number, (name, content) in enumerate(files):
        path = valid / name / name
        path.write_bytes(content)
        if text := problem(known[name], path):
            found.append(f"{number} {name}: {text}")
        shutil.rmtree(cache, ignore_errors=True)
    return found


def _hostile(tmp_path: Path, valid: Path, step: int) -> None:
    contents = payloads(tmp_path / "canary")
    names = list(readers(tmp_path))
    files = [(name, content) for i, content in enumerate(contents) for name in names[i % step :: step]]
    problems = _problems(valid, tmp_path, files)
    executed = (tmp_path / "canary").exists()
    print(f"T12: {len(files)} hostile files: {int(executed)} executed, {len(problems)} not refused properly")  # noqa: T201
    assert not executed
    assert not problems


@pytest.mark.integration
def test_hostile_files_are_refused(tmp_path: Path, valid: Path) -> None:
    _hostile(tmp_path, valid, step=3)


@pytest.mark.slow
def test_every_hostile_file_is_refused_by_every_reader(tmp_path: Path, valid: Path) -> None:
    assert len(payloads(tmp_path / "canary")) >= 50
    _hostile(tmp_path, valid, step=1)


@pytest.mark.parametrize("count", [420, pytest.param(10_010, marks=pytest.mark.slow)])
def test_mutated_files_are_read_or_refused(tmp_path: Path, valid: Path, count: int) -> None:
    contents = {name: (valid / name / name).read_bytes() for name in readers(tmp_path)}
    draw, names = np.random.default_rng(0), list(contents)
    files = [(name, mutated(contents[name], draw)) for name in (names * count)[:count]]
    problems = _problems(valid, tmp_path, files)
    print(f"T13: {count} mutated files: {len(problems)} not read or refused properly")  # noqa: T201
    assert not problems
