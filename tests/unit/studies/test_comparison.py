"""Runs are compared with the same seed, labels and test images, or not at all."""

import json
import math
import operator
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import isopix
from isopix.core.config import to_dict
from isopix.storage.result import Measurement
from isopix.studies.comparison import crossed_mean
from isopix.studies.results import ComparisonResult
from tests.unit.reporting.cases import measurement

SEEDS, DRAWS, NUM_IMAGES = 2, 3, 40


def write_run(
    path: Path,
    correct: np.ndarray,
    *,
    seed: int,
    subset: int,
    pretrained: str | None = None,
    data: str = "photos",
    steps: int = 5,
    hashes: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    measured: Measurement | None = None,
) -> None:
    """Write the files of a finished run that are compared, by hand."""
    path.mkdir(parents=True)
    recipe = {
        "train": {"seed": seed, "steps": steps},
        "data": {"seed": 0, "subset": subset, "source": str(path)},
        "finetune": {"layer": None},
    }
    versions = dict.fromkeys(("device", "torch", "pillow", "python", "platform", "isopix", "started"), "")
    environment: dict[str, Any] = {"data": f"{data} {subset}", "threads": 1, "command": [], **versions}
    if pretrained:
        environment["pretrained"] = {"run": pretrained, "step": 3}
    test = {"kind": "evaluation", "step": steps, "split": "test", "images": len(correct)}
    (path / "recipe.json").write_text(json.dumps(recipe))
    (path / "environment.json").write_text(json.dumps(environment))
    test["measurement"] = to_dict(measured or measurement())
    (path / "log.jsonl").write_text(json.dumps({**test, "accuracy": float(correct.mean())}) + "\n")
    hashes = np.arange(len(correct)) if hashes is None else hashes
    arrays = {} if groups is None else {"groups": groups}
    np.savez(path / "test-images.npz", hashes=hashes, correct=correct, **arrays)


@pytest.fixture
def correct() -> np.ndarray:
    """Which images are right: fine-tuned and from scratch, by seed, draw and image."""
    chances = np.array([0.8, 0.6])[:, None, None, None]
    return np.random.default_rng(4).random((2, SEEDS, DRAWS, NUM_IMAGES)) < chances


@pytest.fixture
def runs(tmp_path: Path, correct: np.ndarray) -> Path:
    for seed, subset in np.ndindex(SEEDS, DRAWS):
        for number, name in enumerate(("tuned", "scratch")):
            write_run(
                tmp_path / f"{name}-{seed}-{subset}",
                correct[number, seed, subset],
                seed=seed,
                subset=subset,
                pretrained=None if number else f"/runs/{seed}",
            )
    return tmp_path


def compare(runs: Path, which: str = "*") -> ComparisonResult:
    tuned, scratch = (sorted(runs.glob(f"{name}-{which}")) for name in ("tuned", "scratch"))
    found = isopix.compare(*tuned, baseline=tuple(scratch))
    assert isinstance(found, ComparisonResult)
    return found


def half(values: np.ndarray) -> float:
    """Half the 95% interval of a mean, by SciPy."""
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    return float(high - low) / 2


def test_the_difference_is_the_mean_over_pairs_and_its_intervals_those_of_scipy(
    runs: Path, correct: np.ndarray
) -> None:
    found = compare(runs)
    values = correct[0].astype(float) - correct[1]
    cells = values.mean(2)
    widths = [half(cells.mean(1)), half(cells.mean(0)), half(values.mean((0, 1)))]
    assert found.difference["mean"] == pytest.approx(cells.mean())
    assert found.difference["half_width"] == pytest.approx(math.hypot(*widths[:2]))
    assert found.difference["half_width_new_images"] == pytest.approx(math.hypot(*widths))
    assert (np.mean(found.accuracies), np.mean(found.baseline_accuracies)) == pytest.approx(
        tuple(correct.mean((1, 2, 3)))
    )
    assert found.warnings == ()
    np.testing.assert_allclose(found.accuracies, correct[0].mean(2))


@pytest.mark.parametrize("spread", [(3.0, 0.0, 0.0), (3.0, 0.5, 0.5), (1.0, 0.0, 1.0)])
def test_the_interval_for_new_images_covers_the_truth_as_often_as_it_says(spread: tuple[float, ...]) -> None:
    """Values around zero that vary with the image, the seed and the draw, and by themselves."""
    draw, held = np.random.default_rng(0), dict.fromkeys(("half_width", "half_width_new_images"), 0.0)
    for _ in range(500):
        effects = (draw.normal(size=shape) for shape in ((60,), (3, 1, 1), (5, 1)))
        values = draw.normal(size=(3, 5, 60)) + sum(map(operator.mul, spread, effects))
        found = crossed_mean(values.mean(2), values)
        for width in held:
            held[width] += (abs(found["mean"]) <= found[width]) / 500
    assert held["half_width_new_images"] >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 500)
    assert held["half_width"] < 0.9 or any(spread[1:])


def test_groups_of_test_images_are_averaged_before_the_interval_over_new_images(
    tmp_path: Path, correct: np.ndarray
) -> None:
    """Four images of each original, in an order of their own, as the placements of a digit."""
    groups = np.arange(NUM_IMAGES) % 10
    for number, name in enumerate(("a", "b")):
        for seed in range(SEEDS):
            images = correct[number, seed, 0]
            write_run(tmp_path / name / f"{seed}", images, seed=seed, subset=0, groups=groups)
    found = isopix.compare(tmp_path / "a", baseline=tmp_path / "b")
    values = (correct[0].astype(float) - correct[1])[:, 0]
    of_groups = values.mean(0).reshape(4, 10).mean(0)
    assert found.difference["images"] == pytest.approx(half(of_groups))
    assert found.difference["images"] != pytest.approx(half(values.mean(0)))


def test_what_an_interval_leaves_out_is_a_note(runs: Path) -> None:
    one = compare(runs, "0-*")
    assert one.difference["seeds"] is None
    assert one.difference["half_width"] == one.difference["draws"]
    assert [note for note in one.warnings if note.startswith("one seed: ")]
    (runs / "scratch-0-1" / "test-images.npz").unlink()
    assert compare(runs).difference["half_width_new_images"] is None


def test_settings_that_differ_and_shared_networks_are_notes(tmp_path: Path, correct: np.ndarray) -> None:
    for seed in range(2):
        write_run(tmp_path / "a" / f"{seed}", correct[0, seed, 0], seed=seed, subset=0, pretrained="/runs/0")
        write_run(tmp_path / "b" / f"{seed}", correct[1, seed, 0], seed=seed, subset=0, steps=9)
    found = isopix.compare(tmp_path / "a", baseline=tmp_path / "b")
    assert found.settings == {"train.steps": ("5", "9")}
    assert "1 pre-trained network for 2 seeds" in found.warnings


def test_records_that_differ_in_what_matters_are_notes(tmp_path: Path, correct: np.ndarray) -> None:
    """Those of one pair are enough; other draws of the same images are no difference."""
    record = measurement(labels_seen=50, selection="step chosen on 60 validation images")
    changed = replace(record, labels_seen=1437, seeds={"data.seed": 3}, data="the same images")
    for seed in range(2):
        of_a = changed if seed else record
        write_run(tmp_path / "a" / f"{seed}", correct[0, seed, 0], seed=seed, subset=0, measured=of_a)
        write_run(tmp_path / "b" / f"{seed}", correct[1, seed, 0], seed=seed, subset=0, measured=record)
    found = isopix.compare(tmp_path / "a", baseline=tmp_path / "b", out=tmp_path / "out.json")
    differ = [note for note in found.warnings if "differ" in note]
    assert differ == ["the runs and the baseline differ in labels seen in training (1,437; 50)"]
    saved = json.loads((tmp_path / "out.json").read_text())
    assert saved["measurements"] == [[to_dict(record)], [to_dict(changed)]]
    write_run(tmp_path / "c/0", correct[1, 0, 0], seed=0, subset=0, measured=replace(record, labels_seen=7))
    shutil.copytree(tmp_path / "b/1", tmp_path / "c/1")
    found = isopix.compare(tmp_path / "a", baseline=tmp_path / "c")
    assert "the runs and the baseline differ in labels seen in training" in found.warnings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "other"}, "tuned-1-2 and .*scratch-1-2 have different images, splits or labels"),
        ({"hashes": np.arange(NUM_IMAGES) + 1}, "were evaluated on different test images"),
        ({"steps": 9}, r"scratch-1-2 and .*scratch-0-0 differ in train\.steps$"),
        ({"subset": 1}, "scratch-1-1 and .*scratch-1-2 have the same seed and labels"),
        ({"subset": 3}, r"none of the runs has train\.seed=0 data\.seed=0 data\.subset=3"),
    ],
)
def test_runs_that_are_no_pairs_are_refused(
    runs: Path, correct: np.ndarray, changes: dict[str, Any], message: str
) -> None:
    shutil.rmtree(runs / "scratch-1-2")
    write_run(runs / "scratch-1-2", correct[1, 1, 2], **{"seed": 1, "subset": 2, **changes})
    with pytest.raises(ValueError, match=message):
        compare(runs)


def test_places_without_runs_are_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no folder nowhere"):
        isopix.compare("nowhere", baseline=runs)
    (runs / "scratch-0-0" / "log.jsonl").write_text("")
    with pytest.raises(ValueError, match="scratch-0-0 has no test accuracy; give fine-tuned runs"):
        compare(runs)
