"""The page of a study has every number that it is given."""

import re
from typing import Any

import pytest

from isopix.studies.inductive_bias.page import claims_headline, lead, render_study

STUDY = {
    "scale": "tiny",
    "seeds": 2,
    "data": "/somewhere/cifar10",
    "written": "2026-01-02T03:04:05",
    "folder": "/a b",
}
STUDY["path"] = "/a b/bias"
STUDY["command"] = ["isopix", "study", "inductive-bias"]


def trial(block: str, seed: int, **more: Any) -> dict[str, Any]:
    measurements = {
        "translation_error": [0.0, 0.25],
        "permutation_error": [0.0, 0.5],
        "receptive_field_mean": [0.0, 3.0],
        "receptive_field_radius_95": [0, 7],
        "distance_preservation": [0.75, 0.7, 0.7],
        "effective_rank": [12.0, 11.0, 11.0],
        "color_error": {
            "mean_absolute": 0.1,
            "histogram": 0.06,
            "misplaced_fraction": 0.4,
            "exact_fraction": 0.02,
        },
    }
    done = {
        "status": "done",
        "reason": "",
        "learning_rate": 0.01,
        "diverged": [],
        "loss": 4.0 + 0.1 * seed,
        "best_layer": 1,
    }
    numbers = {
        "test_accuracy": 0.3,
        "raw_pixels": 0.36,
        "untrained": [0.1, 0.2],
        "untrained_best_layer": 1,
        "measurements": measurements,
    }
    name = f"{block}-pix2vec-1-seed-{seed}"
    kind = {"name": name, "block": block, "encoding": "pix2vec", "depth": 1, "seed": seed}
    return {**kind, **done, **numbers, "training_seconds": 50.0, "probing_seconds": 15.0, **more}


def claim(letter: str, conclusion: str, **contrast: Any) -> dict[str, Any]:
    own = {
        "text": "more",
        "unit": "nats",
        "values": [1.0, 3.0],
        "threshold": 0.0,
        "mean": 2.0,
        "half_width": 2.0,
    }
    contrasts = [{**own, "conclusion": conclusion, **contrast}]
    return {
        "letter": letter,
        "claim": "One is more.",
        "source": "figure 1",
        "conclusion": conclusion,
        "contrasts": contrasts,
    }


TRIALS = [
    trial("conv", 0),
    trial("conv", 1, learning_rate=0.003, diverged=[0.01]),
    trial("mixer", 0, status="failed", reason="killed by <SIGKILL>"),
    trial("mixer", 1, status="not run", learning_rate=None),
    trial("mixer", 2, status="failed", learning_rate=0.003, diverged=[0.01, 0.003]),
]
CLAIMS = [
    claim("a", "holds"),
    claim("b", "does not hold", mean=-2.0),
    claim("c", "not decided", mean=None, values=[]),
]


def page() -> str:
    return render_study(STUDY, TRIALS, CLAIMS, figures=[], environment={"torch": "2"})


def test_the_page_is_self_contained() -> None:
    text = page()
    assert text.startswith("<!doctype html>")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "<script" not in text


def test_conclusions_are_counted() -> None:
    done = [each for each in TRIALS if each["status"] == "done"]
    assert (
        claims_headline(CLAIMS, done)
        == "Of the paper’s three claims, one holds, one does not and one is not decided."
    )
    assert claims_headline(CLAIMS[:1] * 2, done) == "Of the paper’s two claims, two hold."
    assert claims_headline(CLAIMS, []) == "No trial of this study is done yet."


def test_blocks_are_compared_over_their_common_variants() -> None:
    own = [trial("conv", 0), trial("mixer", 0, loss=5.0), trial("mixer", 0, loss=1.0, depth=3)]
    assert "convolutions 4.00 nats, 30.0\u00a0%" in lead(own)
    assert "mixers 5.00 nats" in lead(own)
    assert "raw pixels (higher-dimensional than the features) 36.0\u00a0%" in lead(own)


@pytest.mark.parametrize(
    "text",
    [
        "4.050 ± 0.071",  # loss of conv, mean and standard deviation over seeds
        "0.01, 0.003 (0.01 diverged)",
        "1 min 5 s",
        "2 of 2",
        "0 of 3",
        ">0.01 and 0.003 diverged<",
        "mixer-pix2vec-1-seed-0: killed by &lt;SIGKILL&gt;",
        "+2 nats",
        "± 1.4",
        "−2 nats",
        "not run",
        "40.0 %",  # misplaced
        "cd &#39;/a b&#39;",
    ],
)
def test_every_number_is_on_the_page(text: str) -> None:
    assert text in page()


def test_the_bar_of_a_contrast_is_its_interval() -> None:
    (mark,) = re.findall(r'whisker" d="M(\S+) 4H(\S+)"/><path class="point" d="M(\S+) 0V8', page())[:1]
    low, high, point = map(float, mark)
    assert (low, point, high) == pytest.approx((0, 47.5, 95))  # 2 - 2 to 2 + 2
