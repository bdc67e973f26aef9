"""No number without its measurement record, and no test image that a run has seen."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import isopix
from isopix.core.config import from_dict
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.load import load_dataset
from isopix.runs.image_lists import load_hashes
from isopix.runs.load import load_run
from isopix.storage.result import Measurement
from isopix.storage.run_folder import SEEN
from tests.golden.values import flat
from tests.trained import CPU, logged

SETTINGS = ["depth=1", "width=16", "heads=2", "batch_size=16", "data.limit=60", "num_test_images=20"]
NUMBERS = re.compile("accurac|loss|nats|cross_entropy|errors$|exact_|baselines")
SETTINGS_OF_OTHERS = ("settings", "config")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was pre-trained and probed, and one that was fine-tuned from it."""
    out = tmp_path_factory.mktemp("runs")
    words = [*SETTINGS, "steps=2", "evaluate_images=30", "knn_images=10", "probe_every=2"]
    run = isopix.pretrain("igpt.digits", *words, out=out / "run")
    isopix.probe(run, "l2_grid=[0.1]", layer=1)
    words = ["steps=2", "data.limit=60", "data.augment=none", "evaluate_images=30", "evaluate_every=1"]
    return isopix.finetune(run, *words, out=out / "tuned").path


def unmeasured(values: Any, where: str, measured: bool = False) -> Iterator[str]:
    """Yield the places of numbers that have no record beside or above them."""
    if isinstance(values, dict):
        measured = measured or has_record(values)
        for name, each in values.items():
            if not measured and NUMBERS.search(name) and has_numbers(each):
                yield f"{where}/{name}"
            elif name not in SETTINGS_OF_OTHERS:
                yield from unmeasured(each, f"{where}/{name}", measured)
    elif isinstance(values, list):
        for index, each in enumerate(values):
            yield from unmeasured(each, f"{where}/{index}", measured)


def has_record(values: dict[str, Any]) -> bool:
    """Whether there is a record, or a table of records."""
    found = [values["measurement"]] if values.get("measurement") else []
    found += [each for each in flat(values.get("measurements", [])) if "images_hash" in each]
    return all(from_dict(Measurement, each).images > 0 for each in found) and bool(found)


def has_numbers(values: Any) -> bool:
    """Whether these are measured values, or hold any."""
    inner = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    return isinstance(values, float) or any(map(has_numbers, inner))


def test_no_number_is_logged_without_a_record(tuned: Path) -> None:
    """Evaluations are covered by the records of their evaluators."""
    missing: list[str] = []
    for log in tuned.parent.glob("**/log.jsonl"):
        if logged(log.parent, split="validation"):
            measured = logged(log.parent, kind="measurement", evaluator="held_out_loss")
            missing += [] if measured else [str(log)]
        tested = logged(log.parent, split="test")
        missing += [place for each in tested for place in unmeasured(each, str(log))]
    assert not missing, "\n".join(missing)


SMALL = ["steps=2", "depth=1", "width=16", "heads=2", "batch_size=8", "size=8", "evaluate_images=4"]
PRETRAINING = [*SMALL, "data.augment=none", "holdout=0.2"]
TUNING = ["steps=2", "data.seed=5", "data.augment=none", "holdout=0.2"]
UNKNOWN = "the training images of this model are not known; test images may be among them"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """60 random images of two classes, without splits."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "all.npz", x_train=pixels, y_train=np.arange(60) % 2)
    return tmp_path / "all.npz"


@pytest.fixture
def source(archive: Path) -> Any:
    return isopix.pretrain("igpt.digits", *PRETRAINING, data=archive, out=archive.parent / "run")


def dataset(archive: Path, **changes: int) -> ImageDataset:
    return load_dataset(DataConfig(source=str(archive), rows=8, cols=8, holdout=0.2, **changes))


def hashes_of(folder: Path) -> set[int]:
    found = load_hashes(folder, SEEN, {})
    assert found is not None
    return set(found.tolist())


def pixels(images: torch.Tensor) -> set[bytes]:
    return {image.numpy().tobytes() for image in images}


def test_a_fine_tuned_run_has_also_seen_the_images_of_pre_training(
    tmp_path: Path, archive: Path, source: Any
) -> None:
    tuned = isopix.finetune(source, *TUNING, "patience=null", out=tmp_path / "tuned")
    parts = [dataset(archive), dataset(archive, seed=5)]
    assert hashes_of(source.path) == set(parts[0].train.hashes.tolist())
    assert hashes_of(next((source.path / "checkpoints").iterdir())) == hashes_of(source.path)
    expected = {number for data in parts for number in data.train.hashes.tolist()}
    assert hashes_of(tuned.path) == expected
    found = isopix.evaluate(tuned.path)
    unseen = pixels(parts[1].test.images) - pixels(parts[0].train.images)
    assert found.metrics.num_images == len(unseen) < len(parts[1].test)
    assert [each["images"] for each in logged(tuned.path, split="test")] == [len(unseen)]


@pytest.mark.parametrize(("words", "count"), [((), None), (("evaluate_images=3",), 3)])
def test_a_run_also_records_the_validation_images_that_select_its_step(
    tmp_path: Path, archive: Path, source: Any, words: Sequence[str], count: int | None
) -> None:
    tuned = isopix.finetune(source, "steps=2", "data.augment=none", *words, out=tmp_path / "tuned")
    selecting = set(dataset(archive).validation.sample(count).hashes.tolist())
    assert hashes_of(tuned.path) - hashes_of(source.path) == selecting
    assert len(selecting) == (count or len(dataset(archive).validation))


@pytest.mark.parametrize("verb", [isopix.probe, isopix.evaluate, isopix.score, isopix.resume])
def test_a_list_of_images_that_was_changed_is_refused(source: Any, verb: Callable[..., Any]) -> None:
    file = source.path / SEEN
    hashes = np.load(file)
    np.save(file, np.append(hashes[1:], hashes[-1] + 1))
    with pytest.raises(ValueError, match=f"{SEEN} does not have the SHA-256 that the checkpoint records"):
        verb(source.path)


def test_a_model_whose_training_images_are_not_known_is_measured_with_a_warning(
    tmp_path: Path, source: Any
) -> None:
    """So is one that was fine-tuned from it, although its own images are known."""
    assert load_run(source.path, device=CPU).seen_known
    (source.path / "training-images.npy").unlink()
    tuned = isopix.finetune(source, *TUNING, out=tmp_path / "tuned")
    notes = [each["text"] for each in logged(tuned.path, kind="note")]
    assert notes.count(UNKNOWN) == 1
    [tested] = logged(tuned.path, split="test")
    assert tested["measurement"]["warnings"] == [UNKNOWN]
    assert load_hashes(tuned.path, SEEN, {}) is not None
    for run in (source, tuned):
        probed = isopix.probe(run, "l2_grid=[0.1]")
        assert probed.measurement.warnings == probed.warnings == (UNKNOWN,)
        few = isopix.probe(run, labels=(2,), subsets=1, method="ridge")
        assert UNKNOWN in few.warnings
        assert few.measurement.warnings == (UNKNOWN,)
        verified = isopix.evaluate(run)
        assert verified.measurement.warnings == (UNKNOWN,)
    assert isopix.evaluate(tuned).measurement.warnings == (UNKNOWN,)
