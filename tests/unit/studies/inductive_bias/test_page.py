"""The page of a study: every number that it is given, and nothing in silence."""

import re
from typing import Any

import pytest

from isopix.studies.inductive_bias.page import headline, lead, render

STUDY = {
    "scale": "tiny",
    "seeds": 2,
    "data": "/somewhere/cifar10",
    "written": "2026-01-02T03:04:05",
    "folder": "/a b",
}
STUDY["path"] = "/a b/bias"
STUDY["command"] = ["isopix", "study", "inductive-bias"]


def cell(block: str, seed: int, **more: Any) -> dict[str, Any]:
    measured = {
        "translation": [0.0, 0.25],
        "order": [0.0, 0.5],
        "reach": [0.0, 3.0],
        "radius": [0, 7],
        "preservation": [0.75, 0.7, 0.7],
        "rank": [12.0, 11.0, 11.0],
        "colours": {"whole": 0.1, "palette": 0.06, "misplaced": 0.4, "exact": 0.02},
    }
    done = {"state": "done", "reason": "", "rate": 0.01, "died": [], "loss": 4.0 + 0.1 * seed, "best": 1}
    numbers = {
        "accuracy": 0.3,
        "raw_pixels": 0.36,
        "untrained": [0.1, 0.2],
        "untrained_best": 1,
        "measured": measured,
    }
    name = f"{block}-pix2vec-1-seed-{seed}"
    kind = {"name": name, "block": block, "encoding": "pix2vec", "depth": 1, "seed": seed}
    return {**kind, **done, **numbers, "training_seconds": 50.0, "probing_seconds": 15.0, **more}


def claim(letter: str, verdict: str, **part: Any) -> dict[str, Any]:
    own = {"text": "more", "unit": "nats", "values": [1.0, 3.0], "least": 0.0, "mean": 2.0, "half": 2.0}
    parts = [{**own, "verdict": verdict, **part}]
    return {
        "letter": letter,
        "claim": "One is more.",
        "source": "figure 1",
        "verdict": verdict,
        "parts": parts,
    }


CELLS = [
    cell("conv", 0),
    cell("conv", 1, rate=0.003, died=[0.01]),
    cell("mixer", 0, state="failed", reason="killed by <SIGKILL>"),
    cell("mixer", 1, state="not yet", rate=None),
    cell("mixer", 2, state="failed", rate=0.003, died=[0.01, 0.003]),
]
CLAIMS = [
    claim("a", "holds"),
    claim("b", "does not hold", mean=-2.0),
    claim("c", "not decided", mean=None, values=[]),
]


def page() -> str:
    return render(STUDY, CELLS, CLAIMS, figures=[], environment={"torch": "2"})


def test_the_page_is_whole_and_loads_nothing() -> None:
    text = page()
    assert text.startswith("<!doctype html>")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "<script" not in text


def test_verdicts_are_counted_and_none_that_is_empty_is_told() -> None:
    done = [each for each in CELLS if each["state"] == "done"]
    assert (
        headline(CLAIMS, done)
        == "Of the paper’s three claims, one holds, one does not and one is not decided."
    )
    assert headline(CLAIMS[:1] * 2, done) == "Of the paper’s two claims, two hold."
    assert headline(CLAIMS, []) == "No network of this study is done yet."


def test_blocks_are_compared_over_what_all_of_them_have() -> None:
    own = [cell("conv", 0), cell("mixer", 0, loss=5.0), cell("mixer", 0, loss=1.0, depth=3)]
    assert "convolutions 4.00 nats and 30.0\u00a0%" in lead(own)
    assert "mixers 5.00 nats" in lead(own)
    assert "raw pixels, of which there are more than features, 36.0\u00a0%" in lead(own)


@pytest.mark.parametrize(
    "told",
    [
        "4.050 ± 0.071",  # loss of conv, mean and deviation over seeds
        "0.01, 0.003 (0.01 diverged)",
        "1 min 5 s",
        "2 of 2",
        "0 of 3",
        ">0.01 and 0.003 diverged<",
        "mixer-pix2vec-1-seed-0: killed by &lt;SIGKILL&gt;",
        "+2 nats",
        "± 1.4",
        "−2 nats",
        "cells are missing",
        "40.0 %",  # misplaced
        "cd &#39;/a b&#39;",
    ],
)
def test_every_number_is_told(told: str) -> None:
    assert told in page()


def test_the_bar_of_a_number_is_its_interval() -> None:
    (mark,) = re.findall(r'whisker" d="M(\S+) 4H(\S+)"/><path class="point" d="M(\S+) 0V8', page())[:1]
    low, high, point = map(float, mark)
    assert (low, point, high) == pytest.approx((0, 47.5, 95))  # 2 - 2 to 2 + 2
