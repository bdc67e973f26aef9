"""The page of a study has every number that it is given."""

import re
from typing import Any

import pytest
from isopix.studies.inductive_bias.page import render_study
from isopix.studies.inductive_bias.summary import baselines_lead, effects_headline, verdicts_lead

from isopix.recipes import registry

STUDY: dict[str, Any] = {
    "scale": "tiny",
    "seeds": 2,
    "data": "/somewhere/cifar10",
    "written": "2026-01-02T03:04:05",
    "folder": "/a b",
}
STUDY["path"] = "/a b/bias"
STUDY["command"] = ["isopix", "study", "inductive-bias"]
STUDY["recipe"] = registry.find("isotropic.translated_digits-conv-pix2vec-1")
STUDY["probe"] = "ridge regression"
STUDY["test_groups"] = 450


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
        "images": {"train": 100, "validation": 20, "test": 1350},
    }
    accuracies = {
        "best_layer": 1,
        "test_accuracy": 0.3,
        "raw_pixels": 0.36,
        "untrained": 0.2,
        "majority": 0.1,
    }
    pools = {"mean": accuracies, "grid4": {**accuracies, "test_accuracy": 0.5, "untrained": 0.25}}
    numbers = {"pools": pools, "measurements": measurements}
    name = f"{block}-pix2vec-1-seed-{seed}"
    kind = {"name": name, "block": block, "encoding": "pix2vec", "depth": 1, "seed": seed}
    return {**kind, **done, **numbers, "training_seconds": 50.0, "probing_seconds": 15.0, **more}


def claim(letter: str, verdict: str, **contrast: Any) -> dict[str, Any]:
    own = {
        "text": "more",
        "unit": "nats",
        "values": [1.0, 3.0],
        "by_kind": {"pix2vec-1": 1.5},
        "mean": 2.0,
        "interval": [0.5, 3.5],
        "regime": "",
        "needed": "",
        "counted": True,
    }
    contrasts = [{**own, "verdict": verdict, **contrast}]
    return {
        "letter": letter,
        "claim": "One is more.",
        "source": "figure 1",
        "verdict": verdict,
        "needed": [],
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
    claim("b", "does not hold", mean=-2.0, interval=[-4.0, -0.5]),
    claim("c", "not decided", mean=None, interval=None, values=[], needed="needs 9 seeds"),
    claim(
        "d", "cannot be judged", regime="nothing was learned", unit="points", mean=30.0, interval=[10.0, 50.0]
    ),
]


def page() -> str:
    return render_study(
        STUDY,
        TRIALS,
        {"mean": CLAIMS, "grid4": CLAIMS[:2]},
        figures=[],
        environment={"torch": "2", "precision": "bf16"},
    )


def test_the_page_is_self_contained() -> None:
    text = page()
    assert text.startswith("<!doctype html>")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "<script" not in text


def test_verdicts_are_counted_for_each_pool() -> None:
    done = [each for each in TRIALS if each["status"] == "done"]
    assert verdicts_lead({"mean": CLAIMS, "grid4": CLAIMS[:1] * 2}, done) == (
        "With the mean, of the paper’s four claims one holds, one does not hold, one is not decided and one "
        "cannot be judged. With the grid, of the paper’s two claims two hold."
    )
    assert verdicts_lead({"mean": CLAIMS}, []) == ""


def test_effects_are_told_first_over_the_variants_that_all_blocks_have() -> None:
    own = [trial("conv", 0), trial("mixer", 0, loss=5.0), trial("mixer", 0, loss=1.0, depth=3)]
    assert effects_headline(own) == ("Mean probe accuracy: convolutions 30.0\u00a0% and mixers 30.0\u00a0%.")
    lead = baselines_lead(own)
    assert "convolutions 4.00 nats and mixers 5.00 nats" in lead
    assert (
        "untrained networks 20.0\u00a0% (grid 25.0\u00a0%), all raw pixels 36.0\u00a0%, chance 10.0\u00a0%"
        in lead
    )
    assert effects_headline([]) == "No trial of this study is done yet."


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
        "+0.5 to +3.5",
        "−2 nats",
        "needs 9 seeds",
        "nothing was learned",
        "14 × 14",
        "600 steps of 64, bf16",
        "100 / 20 / 1,350 (450 originals)",
        "ridge regression",
        "50.0",
        "not run",
        "40.0 %",  # misplaced
        "cd &#39;/a b&#39;",
    ],
)
def test_every_number_is_on_the_page(text: str) -> None:
    assert text in page()


def test_bars_of_one_unit_share_a_scale() -> None:
    marks = re.findall(r'whisker" d="M(\S+) 4H(\S+)"/><path class="point" d="M(\S+) 0V8', page())
    found = [tuple(map(float, mark)) for mark in marks]
    nats = 95 / 4
    assert found[0] == pytest.approx((0.5 * nats, 3.5 * nats, 2 * nats))
    assert found[1] == pytest.approx((-4 * nats, -0.5 * nats, -2 * nats))
    assert found[2] == pytest.approx((19, 95, 57))


def test_what_all_contrasts_of_a_claim_lack_is_said_once() -> None:
    hidden = claim("d", "cannot be judged", regime="nothing was learned")
    twice = {**hidden, "contrasts": hidden["contrasts"] * 2}
    text = render_study(STUDY, TRIALS, {"mean": [twice]}, figures=[], environment={})
    assert text.count("nothing was learned") == 1
    other = {**hidden["contrasts"][0], "regime": "", "needed": "needs 9 seeds"}
    mixed = {**hidden, "contrasts": [hidden["contrasts"][0], other]}
    text = render_study(STUDY, TRIALS, {"mean": [mixed]}, figures=[], environment={})
    assert (text.count("nothing was learned"), text.count("needs 9 seeds")) == (1, 1)
