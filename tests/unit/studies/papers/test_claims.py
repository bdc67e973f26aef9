"""Claims are evaluated by all their seeds, from records alone; the cheapest is trained first."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isopix.studies.papers import claims
from isopix.studies.papers.claims import CLAIMS, FRACTIONS, SEEDS, evaluated, read_claims, train_claims
from isopix.verbs.claims import claims as list_claims
from tests.unit.studies.papers.fakes import FakeVerbs

Found = dict[str, Any]


def layers(*accuracies: float) -> SimpleNamespace:
    scores = [SimpleNamespace(val_accuracy=each, test_accuracy=each) for each in accuracies]
    return SimpleNamespace(
        best=max(scores, key=lambda one: one.val_accuracy), network=SimpleNamespace(layers=scores)
    )


def tuned(accuracy: float) -> SimpleNamespace:
    return SimpleNamespace(metrics=SimpleNamespace(accuracy=accuracy))


def seed(number: int, sign: int = 1) -> Found:
    """Records in which every claim is true, by differences that hardly vary; with sign -1, false."""
    noise = number / 1000
    probe = {"probe_low": 0, "probe_high": 1}
    log = [
        {"step": 100 * n, "loss_nats": 4 - n, "probe_accuracy": 0.3 + sign * n / 10, **probe}
        for n in range(1, 4)
    ]

    def few(error: float) -> list[SimpleNamespace]:
        return [SimpleNamespace(labels_per_class=count, errors=[error]) for count in claims.LABELS]

    results = {"trained": few(0.8 - 0.05 * sign + noise), "raw pixels": few(0.8)}
    found: Found = {
        "ar": log,
        "ar probe": layers(0.3, 0.4 + sign * 0.05 + noise, 0.4),
        "bert probe": layers(0.3, 0.4 - sign * 0.05 + noise * 0.5, 0.35),
        "ar fine-tuned": tuned(0.5 + sign * 0.005 + noise),
        "bert fine-tuned": tuned(0.5 if sign > 0 else 0.4),
        "classes alone": tuned(0.5 - sign * 0.03),
        "few labels": SimpleNamespace(results=results),
        "mean color probe": layers(0.4 + sign * 0.05 + noise),
        "colors probe": layers(0.4 + sign * 0.04 + noise),
        "pixels probe": layers(0.4),
    }
    for each in FRACTIONS:
        found |= {f"ar {each}": tuned(0.4 + sign * 0.05 + noise), f"scratch {each}": tuned(0.4)}
    return found


def verdicts(seeds: list[Found]) -> dict[str, str]:
    return {each.letter: each.verdict for each in evaluated(CLAIMS, seeds)}


def test_claims_hold_or_not_by_the_sign_of_their_contrasts() -> None:
    assert set(verdicts([seed(number) for number in range(SEEDS)]).values()) == {"holds"}
    found = verdicts([seed(number, -1) for number in range(SEEDS)])
    assert {each for name, each in found.items() if name != "middle"} == {"does not hold"}


def test_a_claim_is_decided_only_with_all_seeds() -> None:
    some = [seed(0), seed(1), {name: each for name, each in seed(2).items() if name == "ar"}]
    found = {each.letter: each for each in evaluated(CLAIMS, some)}
    assert {name for name, each in found.items() if each.verdict == "holds"} == {"loss_and_features"}
    assert len(found["bert"].contrasts[0].values) == 2


def test_the_cheapest_claims_are_trained_first_and_once(tmp_path: Path) -> None:
    verbs = FakeVerbs()
    train_claims(tmp_path, "digits", 0.0, 1e12, verbs)
    assert verbs.calls == []
    train_claims(tmp_path, "digits", 1e9, 1e12, verbs)
    names = [run.relative_to(tmp_path / "runs").parts[0] for command, run, _ in verbs.calls]
    trained = [run for command, run, _ in verbs.calls if command in ("pretrain", "finetune")]
    assert len(trained) == len(set(trained))
    assert names.index("igpt.tiny-2") < names.index("igpt.tiny_bert-0")
    for number, own in enumerate(read_claims(tmp_path, "digits")):
        assert own.keys() == claims.trials("digits", number).keys()
    again = FakeVerbs()
    train_claims(tmp_path, "digits", 1e9, 1e12, again)
    assert again.calls == []


def test_numbers_are_published_or_say_what_they_would_cost(tmp_path: Path) -> None:
    found = list_claims("vit", runs=tmp_path)
    first, *others = found.numbers
    assert (first.method, first.published, first.ours) == ("masked patch prediction", "accuracy 79.9", "")
    assert first.status.endswith("A100-hours for the table")
    assert others[-1].status == "another method"
    with pytest.raises(ValueError, match="budget is '30x'; allowed: a time such as 90s, 30m or 2h"):
        list_claims(runs=tmp_path, budget="30x")
