"""A model's folder for tests that spoil it."""

import shutil
from pathlib import Path

import pytest

from tests.unit.interop.models import folder


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once, for copying."""
    return folder(tmp_path_factory.mktemp("pristine") / "a")


@pytest.fixture
def source(pristine: Path, tmp_path: Path) -> Path:
    """A folder that can be read as it is."""
    return shutil.copytree(pristine, tmp_path / "a")
