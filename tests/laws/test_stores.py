"""Law of stores: the same recipe has the same losses and weights, bit for bit, however images are stored."""

from pathlib import Path

import pytest

from isopix.data.load import load_dataset
from tests.laws.test_resume import recipe
from tests.trained import different_weights, logged, train

DIGITS = ["data.rows=16", "data.cols=16"]
SETTINGS = {
    "ar": ("igpt.digits", []),
    "masked, palette": ("igpt.digits_bert", ["data.train_on_validation=true", "evaluate_images=0"]),
    "padded": ("igpt.digits", ["data.augment.kind=pad_crop_flip", *DIGITS]),
    "fine-tuned": ("igpt.digits", ["finetune.dropout=0.2", "evaluate_every=2", "data.limit=100"]),
    "whole images": (
        "igpt.digits",
        ["data.augment.kind=scale_crop", "data.augment.flip=0.5", "data.rows=4", "data.cols=4"],
    ),
}


def _logged(out: Path) -> list[dict[str, object]]:
    """All records without times and names of runs, and without the note that this CPU emulates bf16."""
    timed = ("images_per_second", "seconds", "peak_memory_bytes", "time", "run", "text")
    records = [each for each in logged(out) if "bf16" not in each.get("text", "")]
    return [{key: each[key] for key in each if key not in timed} for each in records]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_does_not_depend_on_the_store(name: str, tmp_path: Path) -> None:
    family, changes = SETTINGS[name]
    known = set[str]()
    for out, store in {
        "pixels": ["data.store=pixels"],
        "encoded": ["data.store=encoded", "data.workers=0"],
        "workers": ["data.store=encoded", "data.workers=1"],
    }.items():
        settings = recipe(family, [*changes, *store])
        data = load_dataset(settings.data)
        assert data.train.is_decoded == (out == "pixels")
        known.add(data.fingerprint)
        train(settings, tmp_path / out)
    assert len(known) == 1
    for out in ("encoded", "workers"):
        assert different_weights(tmp_path / out, tmp_path / "pixels") == []
        assert _logged(tmp_path / out) == _logged(tmp_path / "pixels")
