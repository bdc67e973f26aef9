"""A run whose images were moved resumes with them, and records where they are; others are refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import isopix
from isopix.runs.load import load_run, saved_recipe
from isopix.storage.log import read_log
from tests.tiny_runs import CPU
from tests.trained import CPU as DEVICE
from tests.trained import train
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import encoded

SMALL = ["depth=1", "width=16", "rows=8", "cols=8", "codec.num_colors=8", "batch_size=4", "steps=2"]
SETTINGS = [*SMALL, "checkpoint_every=1", "evaluate_every=1"]
LAST = "checkpoints/step-00000002"


def write_folder(path: Path) -> None:
    for i in range(20):
        (path / str(i % 2)).mkdir(parents=True, exist_ok=True)
        (path / str(i % 2) / f"{i}.png").write_bytes(encoded(i))


def write_arrays(path: Path) -> None:
    path.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
    np.savez(path / "all.npz", x_train=images, y_train=np.arange(20) % 2)


@pytest.mark.parametrize(("write", "file"), [(write_folder, ""), (write_arrays, "all.npz")])
def test_a_run_resumes_where_its_images_are(tmp_path: Path, write: Callable[[Path], None], file: str) -> None:
    before, after, run = tmp_path / "photos" / file, tmp_path / "moved" / file, tmp_path / "run"
    write(tmp_path / "photos")
    train("igpt.digits", run, *SETTINGS, f"source={before}")
    weights = (run / LAST / "model.safetensors").read_bytes()
    shutil.rmtree(run / LAST)  # as if it had been interrupted after step 1
    shutil.move(tmp_path / "photos", tmp_path / "moved")
    line = (
        f"the images of this run are not at {before}; give --data, or once for all: isopix resume RUN --data"
    )
    for call in (isopix.resume, isopix.verify, isopix.probe, isopix.score, isopix.neighbors):
        assert refusal(call, run).startswith(line)
    assert isopix.resume(run, data=after, **CPU).finished
    assert (run / LAST / "model.safetensors").read_bytes() == weights
    notes = [each["text"] for each in read_log(run / "log.jsonl") if each["kind"] == "note"]
    assert f"the images of {before} are now at {after}" in notes
    assert load_run(run, device=DEVICE).recipe.data.source == str(after)
    assert isopix.verify(run, **CPU).images == isopix.verify(run, data=after, **CPU).images


def test_a_finished_fine_tuned_run_records_the_place(tmp_path: Path) -> None:
    write_folder(tmp_path / "photos")
    train("igpt.digits", tmp_path / "run", *SETTINGS, f"source={tmp_path}/photos")
    run = isopix.finetune(tmp_path / "run", "steps=1", "evaluate_every=1", out=tmp_path / "tuned", **CPU)
    shutil.move(tmp_path / "photos", tmp_path / "moved")
    assert isopix.resume(run, data=tmp_path / "moved", **CPU).finished
    assert saved_recipe(run.path).data.source == str(tmp_path / "moved")
    assert isopix.evaluate(run, **CPU).measurement.data == "moved"


def test_other_images_are_refused_and_the_run_is_unchanged(tmp_path: Path) -> None:
    write_folder(tmp_path / "photos")
    train("igpt.digits", tmp_path / "run", *SETTINGS, f"source={tmp_path}/photos")
    recipe = (tmp_path / "run/recipe.json").read_bytes()
    shutil.copytree(tmp_path / "photos", tmp_path / "other")
    (tmp_path / "other/0/0.png").write_bytes(encoded(99))
    line = refusal(lambda: isopix.resume(tmp_path / "run", data=tmp_path / "other", **CPU))
    started = f"differ from those that run {tmp_path}/run was started with, or their names or splits do"
    assert line.startswith(f"the images of '{tmp_path}/other' {started}: fingerprint ")
    assert (tmp_path / "run/recipe.json").read_bytes() == recipe
