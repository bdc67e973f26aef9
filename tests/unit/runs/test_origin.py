"""When a decoder fits its backbone, by the records of a log."""

import json
from pathlib import Path
from typing import Any

import pytest

from isopix.recipes import registry
from isopix.runs.origin import decoder_fits, unigram_nats

BASELINES = [
    {"kind": "baselines", "step": 0, "held_out": "test", "nats": {"unigram": 9.0}},
    {
        "kind": "baselines",
        "step": 0,
        "held_out": "validation",
        "nats": {"other": 1.0, "unigram": 2.0},
    },
]


def validated(step: int, loss: float, **changes: Any) -> dict[str, Any]:
    return {"kind": "evaluation", "step": step, "split": "validation", "loss_nats": loss, **changes}


@pytest.mark.parametrize(
    ("records", "fits"),
    [
        ([*BASELINES, validated(1, 1.99)], True),
        ([*BASELINES, validated(1, 2.0)], False),
        ([*BASELINES, validated(1, 1.0), validated(2, 3.0)], False),
        ([*BASELINES, validated(1, 3.0), validated(2, 1.0, split="test")], False),
        ([*BASELINES], False),
        ([BASELINES[0], validated(1, 1.0)], False),
        ([*BASELINES, {"kind": "evaluation", "step": 1, "split": "validation", "class_nats": 0.1}], False),
    ],
)
def test_the_last_validation_loss_decides(tmp_path: Path, records: list[Any], fits: bool) -> None:
    log, recipe = tmp_path / "log.jsonl", registry.find("igpt.digits", "no recipe")
    log.write_text("".join(json.dumps(each) + "\n" for each in records))
    assert decoder_fits(recipe, 5, log, initially=False) == fits
    assert decoder_fits(recipe, 5, log, initially=True)
    assert not decoder_fits(recipe, 0, log, initially=False)


def test_a_log_without_the_unigram_baseline_has_none() -> None:
    assert unigram_nats(BASELINES) == 2.0
    assert unigram_nats(BASELINES[:1]) is None
    assert unigram_nats([{**BASELINES[1], "nats": {"other": 1.0}}]) is None
