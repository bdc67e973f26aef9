"""The hub, as far as it goes without a network: what its library is asked, and what is said when it fails."""

import fnmatch
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import isopix
from isopix.storage import hub
from tests.unit.data.refusal import refusal


def library(monkeypatch: pytest.MonkeyPatch, **parts: object) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(**parts))


@pytest.mark.parametrize("name", ["missing", "a/b/c", "../up", "own er/name"])
def test_neither_folder_nor_hub_name_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch)
    with pytest.raises(ValueError, match=r"^no folder .*; a model on the Hub is named owner/name"):
        hub.resolve_path(name)


def test_a_missing_folder_like_a_hub_name_is_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    not_found = type("RepositoryNotFoundError", (Exception,), {})  # as in huggingface_hub
    gated = type("GatedRepoError", (not_found,), {})
    library(monkeypatch, snapshot_download=Mock(side_effect=gated("401 Client Error. (Request ID: 1)")))
    with pytest.raises(ValueError, match=r"^'owner/digts' is neither a run folder nor a model that .*401"):
        isopix.load("owner/digts")
    (tmp_path / "runs").mkdir()
    assert refusal(isopix.load, "runs/typo") == "no folder runs/typo"
    for name in ("cats", "cats-2"):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "recipe.json").touch()
    assert refusal(isopix.load, "runs/dog") == "no folder runs/dog; did you mean runs/cats or runs/cats-2?"
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # cannot be imported
    finetune = partial(isopix.finetune, out="x")
    calls = (isopix.load, isopix.Run, isopix.probe, isopix.resume, isopix.report, finetune)
    for call in calls:
        assert refusal(call, "runs/cat") == "no folder runs/cat; did you mean runs/cats?"


@pytest.mark.parametrize("safe", [True, False])
def test_pickles_are_downloaded_only_without_safetensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: bool
) -> None:
    asked = []

    def fetch(name: str, *, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        asked.append(allow_patterns)
        assert fnmatch.fnmatch("onnx/model.safetensors", ignore_patterns[0])
        if safe:
            (tmp_path / "model.safetensors").touch()
        return str(tmp_path)

    library(monkeypatch, snapshot_download=fetch)
    assert hub.resolve_path("owner/name") == tmp_path
    assert [hub.PICKLE_PATTERN in patterns for patterns in asked] == ([False] if safe else [False, True])


def test_without_network_the_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fail = Mock(side_effect=ConnectionError("no route\nto host"))
    library(monkeypatch, snapshot_download=fail, create_repo=fail)
    line = r"^'owner/name' is neither a run folder nor a model that .* \(no route to host\)"
    with pytest.raises(RuntimeError, match=line):
        hub.resolve_path("owner/name")
    line = r"^cannot upload 'owner/name' to the Hub: no route to host$"
    with pytest.raises(RuntimeError, match=line):
        hub.upload(Path("folder"), "owner/name", private=False)


def test_upload_creates_the_model_and_uploads_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, upload = Mock(return_value="hub/owner/name"), Mock()
    library(monkeypatch, create_repo=create, upload_folder=upload)
    assert hub.upload(tmp_path, "owner/name", private=True) == "hub/owner/name"
    create.assert_called_once_with("owner/name", private=True, exist_ok=True)
    message = "Upload by isopix"
    upload.assert_called_once_with(repo_id="owner/name", folder_path=tmp_path, commit_message=message)
    with pytest.raises(ValueError, match="'name' is not a Hub model name; use owner/name"):
        hub.require_name("name")
