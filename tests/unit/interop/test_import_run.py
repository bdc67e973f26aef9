"""Somebody else's model becomes a run folder, or leaves nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.interop.imagegpt import read_imagegpt
from isopix.interop.imported_model import ImportedModel, import_run
from isopix.runs.load import load_run
from isopix.storage import checkpoint
from isopix.storage.run_folder import RunFolder
from tests.unit.data.refusal import refusal
from tests.unit.interop.models import folder, network


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> ImportedModel:
    return read_imagegpt(folder(tmp_path_factory.mktemp("theirs") / "a"))


@pytest.mark.parametrize("data", [None, "my photos"])
def test_the_run_holds_the_model_and_its_origin(
    imported: ImportedModel, tmp_path: Path, data: str | None
) -> None:
    import_run(lambda: imported, tmp_path / "run", data=data)
    run = RunFolder.open(tmp_path / "run")
    found = load_run(run.path, device=torch.device("cpu"))
    own = network().tensors()
    assert all(torch.equal(tensor, own[name]) for name, tensor in found.network.tensors().items())
    told = json.loads(run.environment.read_text())
    assert told["imported"] == "Hugging Face a"
    assert told.get("trained_on") == data
    tensor_reports = found.imported["tensors"]
    assert {each["source"] for each in tensor_reports} == {each.source for each in imported.tensor_reports}
    assert len(checkpoint.verify_files(checkpoint.latest_folder(run.checkpoints))) == 5


@pytest.mark.parametrize("wrong", ["unreadable", "misfit"])
def test_a_failed_import_leaves_nothing(imported: ImportedModel, tmp_path: Path, wrong: str) -> None:
    def read() -> ImportedModel:
        if wrong == "unreadable":
            raise ValueError("it is damaged")
        return replace(imported, tensors={})

    with pytest.raises(ValueError, match="it is damaged" if wrong == "unreadable" else "is missing"):
        import_run(read, tmp_path / "run", data=None)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()

    def read() -> ImportedModel:
        raise AssertionError("it was read")

    line = refusal(lambda: import_run(read, tmp_path, data=None))
    assert line == f"folder {tmp_path} is not empty; choose another --out"
