"""A path is read unasked only if this user has read it before."""

from pathlib import Path

import pytest

from isopix.data.dataset import DataConfig, load_dataset
from isopix.data.known_sources import is_known_source, remember_source, require_known_source
from tests.unit.data.refusal import refusal


@pytest.fixture(autouse=True)
def _own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_path_of_a_run_is_refused_until_the_user_has_read_it(classes: Path) -> None:
    source = str(classes)
    assert refusal(require_known_source, source) == (
        f"this run was trained on {source}, which you have not used before; to read it, give --data {source}"
    )
    load_dataset(DataConfig(source=source, rows=8, cols=8))
    require_known_source(source)
    assert not is_known_source(str(classes / "cat"))


def test_names_of_datasets_and_missing_paths_are_no_secrets(tmp_path: Path) -> None:
    for source in ("digits", "cifar10", str(tmp_path / "missing")):
        require_known_source(source)
    assert not (tmp_path / "state").exists()


def test_a_path_is_known_however_it_is_written(classes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(classes.parent)
    for _ in range(2):
        remember_source(classes.name)
    (classes.parent / "link").symlink_to(classes)
    for source in (str(classes), "./pets/cat/..", "link"):
        require_known_source(source)
    assert len((classes.parent / "state" / "isopix" / "known-sources").read_text().split()) == 1
