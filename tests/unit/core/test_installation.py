"""What is installed, and what is missing."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from isopix.core.installation import import_error, installation, is_installed, wrong_versions


def test_needed_packages_are_there_and_extras_have_their_own() -> None:
    found = installation()
    assert found is not None
    assert wrong_versions(found.needed) == []
    assert {"torch", "numpy"} <= {each.name for each in found.needed}
    assert [each.name for each in found.extras["slurm"]] == ["submitit"]
    assert "dev" not in found.extras
    assert not {each.name for each in found.needed} & {"submitit", "datasets", "pytest"}


def test_a_missing_and_an_old_package_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "einops":
            raise metadata.PackageNotFoundError(name)
        return "0.1"

    monkeypatch.setattr(metadata, "requires", lambda name: ["einops>=0.8", "torch>=2.10", "pillow<1"])
    monkeypatch.setattr(metadata, "version", version)
    found = installation()
    assert found is not None
    wrong = [(each.required, each.version) for each in wrong_versions(found.needed)]
    assert wrong == [("einops>=0.8", None), ("torch>=2.10", "0.1")]


def test_without_metadata_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert installation() is None


def test_an_import_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('no such operator\\nand more')")
    monkeypatch.syspath_prepend(tmp_path)
    assert is_installed("broken_module")
    assert "broken_module" not in sys.modules
    assert import_error("broken_module") == "RuntimeError: no such operator"
    assert import_error("json") == ""
    assert not is_installed("no_such_module_at_all")
