"""Checkpoints are complete or absent; the latest intact one is found."""

import json
import os
import signal
from pathlib import Path

import pytest
import safetensors.torch
import torch

from isopix.core import signals
from isopix.storage import checkpoint
from isopix.storage.atomic import machine, sweep

TENSORS = {
    "model": {"weight": torch.arange(6.0).reshape(2, 3), "half": torch.ones(2, dtype=torch.bfloat16)},
    "optimizer": {"weight/step": torch.tensor(3.0)},
}
RECORDS = {"recipe": {"depth": 4}, "state": {"step": 3}}


def save(checkpoints, step):
    folder = checkpoint.step_folder(checkpoints, step)
    checkpoint.save_checkpoint(folder, TENSORS, {**RECORDS, "state": {"step": step}})
    return folder


def test_equal_states_give_equal_files(tmp_path):
    first, second = save(tmp_path / "a", 3), save(tmp_path / "b", 3)
    parts = ["manifest.json", "model.safetensors", "optimizer.safetensors", "recipe.json", "state.json"]
    assert sorted(path.name for path in first.iterdir()) == parts
    for part in parts:
        assert (first / part).read_bytes() == (second / part).read_bytes()


def test_only_the_requested_groups_are_verified_and_loaded(tmp_path):
    folder = save(tmp_path, 3)
    (folder / "optimizer.safetensors").unlink()
    loaded = checkpoint.load_checkpoint(folder, ["model"])
    assert loaded.tensors.keys() == {"model"}
    assert loaded.records == RECORDS
    with pytest.raises(ValueError, match=r"optimizer\.safetensors is missing"):
        checkpoint.load_checkpoint(folder)


def test_a_stop_signal_that_a_library_makes_an_error_of_is_no_damage(tmp_path, monkeypatch):
    save(tmp_path, 3)
    monkeypatch.setattr(safetensors.torch, "load_file", lambda path: int("half read"))
    with pytest.raises(checkpoint.DamagedCheckpointError):
        checkpoint.load_latest(tmp_path, checkpoint.load_checkpoint)
    monkeypatch.setattr(signals._Process, "raised", signal.SIGTERM)
    with pytest.raises(signals.StopSignal):
        checkpoint.load_latest(tmp_path, checkpoint.load_checkpoint)


def test_a_checkpoint_of_a_step_is_replaced_by_a_newer_save(tmp_path):
    folder = save(tmp_path, 3)
    checkpoint.save_checkpoint(folder, {}, {"state": {"step": 33}})
    assert checkpoint.load_checkpoint(folder).records == {"state": {"step": 33}}
    assert list(tmp_path.iterdir()) == [folder]


def test_an_older_checkpoint_outlives_a_save_that_fails_at_its_end(tmp_path, monkeypatch):
    folder, rename = save(tmp_path, 3), Path.rename
    monkeypatch.setattr(Path, "rename", lambda path, to: 1 / 0 if to == folder else rename(path, to))
    with pytest.raises(ZeroDivisionError):
        checkpoint.save_checkpoint(folder, {}, {})
    [kept] = tmp_path.iterdir()
    assert checkpoint.load_checkpoint(kept).records == {**RECORDS, "state": {"step": 3}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 1}, "manifest.json has format 1; this version reads 2: train again"),
        ({"files": {"../model.safetensors": {}}}, "manifest.json lists '../model.safetensors', which is not"),
        ({"files": {"a.json/../../b.json": {}}}, "manifest.json lists 'a.json/../../b.json', which is not"),
    ],
)
def test_a_manifest_of_another_format_or_place_is_refused(tmp_path, changes, reason):
    folder = save(tmp_path, 3)
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(checkpoint.DamagedCheckpointError, match=reason):
        checkpoint.load_checkpoint(folder)


def test_the_latest_step_is_found_by_its_number(tmp_path):
    for step in (9, 99_999_999, 100_000_000):
        save(tmp_path, step)
    (tmp_path / "step-none").mkdir()
    found, damaged = checkpoint.load_latest(tmp_path, checkpoint.load_checkpoint)
    assert found.records["state"]["step"] == 100_000_000
    assert damaged == []


@pytest.mark.parametrize("ending", ["", "-replaced"])
def test_a_complete_checkpoint_under_a_temporary_name_is_recovered(tmp_path, ending):
    folder = save(tmp_path, 2)
    folder.rename(tmp_path / f".tmp-{folder.name}-999999999@{machine()}{ending}")
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    assert checkpoint.load_checkpoint(folder).records["state"]["step"] == 2


def test_of_two_temporary_checkpoints_the_later_is_recovered(tmp_path):
    folder = save(tmp_path, 2)
    folder.rename(tmp_path / f".tmp-{folder.name}-999999999@{machine()}-replaced")
    checkpoint.save_checkpoint(folder, {}, {"state": {"step": 22}})
    folder.rename(tmp_path / f".tmp-{folder.name}-999999999@{machine()}")
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    assert checkpoint.load_checkpoint(folder).records == {"state": {"step": 22}}


def test_names_reach_the_disk_before_and_after_a_checkpoint_is_renamed(tmp_path, monkeypatch):
    flushed = []
    fsync = checkpoint.fsync_folder

    def record(folder):
        flushed.append((folder.name, sorted(path.name for path in tmp_path.glob("step-*"))))
        fsync(folder)

    monkeypatch.setattr(checkpoint, "fsync_folder", record)
    save(tmp_path, 3)
    assert flushed == [
        (f".tmp-step-00000003-{os.getpid()}@{machine()}", []),
        (tmp_path.name, ["step-00000003"]),
    ]
