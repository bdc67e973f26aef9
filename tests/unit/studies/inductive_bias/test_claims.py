"""The ten claims, tested on made-up studies that agree with the paper, contradict it, or cannot tell."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from isopix.core.config import to_dict
from isopix.studies.inductive_bias.claims import CLAIMS, evaluate_claims
from isopix.studies.inductive_bias.contrasts import difference
from isopix.studies.inductive_bias.evidence import StudyEvidence
from tests.golden.values import check_golden
from tests.unit.studies.inductive_bias.worlds import (
    CELLS,
    RANK,
    STEP,
    WORLDS,
    World,
    blocks,
    flat,
    probed,
    trial,
    world,
)

LETTERS = list(CLAIMS)


@pytest.mark.parametrize("letter", LETTERS)
def test_a_claim_holds_where_it_is_true_and_not_where_the_opposite_is(letter: str) -> None:
    assert WORLDS[letter](1).verdicts()[letter] == "holds"
    assert WORLDS[letter](-1).verdicts()[letter] == "does not hold"


@pytest.mark.parametrize("other", [1.0, 0.0, None])  # opposite, equal, not measured
def test_distance_is_judged_only_by_what_both_measures_say(other: float | None) -> None:
    """As on CIFAR-10: mixers are best by rank correlation, convolutions next to the diagonal."""
    made = WORLDS["i"](-1)
    for place, each in enumerate(made.trials):
        measured = dict(each.measurements)
        [own, *_] = measured.pop("local_similarity")
        if other is not None:
            measured["local_similarity"] = [own + 0.2 * (1 + other) * RANK[each.block]]
        made.trials[place] = replace(each, measurements=measured)
    found = made.results()["i"]
    assert (found.verdict, len(found.contrasts)) == ("cannot be judged", 4)


def test_without_differences_nothing_is_refuted() -> None:
    found = world(lambda a: flat(0.5, a[2]), images=2000, noise=0.01).verdicts()
    assert "does not hold" not in found.values()
    assert found["c"] == "cannot be judged"  # accuracy does not fall with the loss


def below_no_frequencies(made: World) -> World:
    unigram = {"unigram": min(each.loss for each in made.trials) - 0.1}
    return World([replace(each, measurements={**each.measurements, **unigram}) for each in made.trials])


def with_a_seed_begun(made: World) -> World:
    begun = [replace(each, seed=9, loss=1.0) for each in made.trials if each.seed == 0 and each.depth == 1]
    return World([*made.trials, *begun[:2]])


MISSING = {"mixer": "agij", "transformer-1": "ahij", "conv": "afij", "pix2vec": "cdghi"}
CHANGES: dict[str, tuple[str, Callable[[World], World]]] = {  # of true worlds, and the claims they concern
    "as it is": ("abcdefghij", lambda made: made),
    "all near their baselines": ("abcdefgh", lambda made: made.with_baselines(0.99)),
    "deep ones near their baselines": ("g", lambda made: made.with_baselines(0.99, lambda t: t.depth == 6)),
    "one block has learned": ("a", lambda made: made.with_baselines(0.57)),
    "losses above those of frequencies": ("adej", below_no_frequencies),
    "convolutions alone": ("bcde", lambda made: made.only(lambda t: t.block == "conv")),
    "one seed": ("abcdefghij", lambda made: made.only(lambda t: t.seed == 0)),
    "a seed has begun": ("abcdefghij", with_a_seed_begun),
    **{
        f"no {name}": (letters, lambda made, name=name: made.only(lambda t: name not in t.architecture))
        for name, letters in MISSING.items()
    },
}


@pytest.mark.parametrize(
    ("change", "letter"), [(change, letter) for change, (each, _) in CHANGES.items() for letter in each]
)
def test_what_is_found_is_golden(change: str, letter: str) -> None:
    made = WORLDS[letter](1)
    found, before = (to_dict(each.results()[letter]) for each in (CHANGES[change][1](made), made))
    check_golden("claims", f"{letter}, {change}", found, before if change != "as it is" else ())


def test_one_encoding_alone_does_not_make_a_block_better() -> None:
    """Twelve points in one encoding and none in the others is no property of the block."""
    cells = [cell for cell in CELLS if cell[2] < 6]
    made = world(lambda a: flat(0.5 + 0.12 * (a[:2] == ("conv", "fourier")), a[2]), cells=cells)
    contrast = made.results()["a"].contrasts[1]
    assert contrast.mean == pytest.approx(4, abs=0.5)
    assert contrast.verdict == "not decided"
    assert contrast.by_kind["fourier-1"] > 10


def test_test_images_that_are_shared_widen_every_interval() -> None:
    """Two networks of fixed accuracies on 200 images: seeds agree, and yet 3 points may be chance."""
    few = world(lambda a: flat(0.5 + 0.03 * (a[0] == "conv"), a[2]), images=200, noise=0.0)
    shared = [
        trial(each.architecture, each.seed, 4.0, probed(own, images=200, seed=len(each.block)))
        for each in few.trials
        for own in [each.probes["mean"].network.test_accuracies]
    ]
    contrast = World(shared).results()["a"].contrasts[1]
    evidence = StudyEvidence(shared, "mean")
    estimate = difference(evidence, ("conv", "mixer"), evidence.accuracy).estimate
    images = {each.name: each.standard_error for each in estimate.sources}["images"]
    assert images == pytest.approx(100 * math.sqrt(2 * 0.25 / 200), rel=0.1)
    assert contrast.verdict == "not decided"


def test_test_images_choose_no_layer_and_no_network() -> None:
    """Validation says layer 4 and the shallowest; test images are the best elsewhere."""
    made = World()
    for seed in range(3):
        for cell in [cell for cell in CELLS if cell[0] == "conv" and cell[2] in (1, 6)]:
            test = [0.3, 0.9, 0.2, 0.2, 0.4, 0.2, 0.1 + 0.001 * seed]
            network = probed(test, [0.0, 0.1, 0.1, 0.1, 0.5, 0.1, 0.1])
            if cell[2] == 1:
                network = probed([0.2 + 0.1 * (cell[1] == "pix2vec")] * 2, [0.6, 0.6])
            made.trials.append(trial(cell, seed, 4.0, network))
    last, first = made.results()["f"].contrasts
    assert last.values == pytest.approx([30, 29.9, 29.8])
    assert first.values == pytest.approx([10, 10, 10])
    assert made.results()["d"].contrasts[1].values == pytest.approx([10, 10, 10])


def test_a_correlation_is_shown_within_each_block_and_judged_over_all() -> None:
    """Simpson's paradox: over all networks accuracy falls with the loss, within each block it rises."""
    made = world(
        lambda a: flat(0.5 + STEP * RANK[a[0]] - 0.01 * math.log2(a[2]), a[2]),
        lambda a: 4 - 0.5 * RANK[a[0]] - 0.1 * math.log2(a[2]),
        noise=0.001,
    )
    overall, *within = made.results()["b"].contrasts
    numbers = [(each.loss, each.probes["mean"].network.test_accuracy) for each in made.trials]
    losses, accuracies = np.reshape(numbers, (4, -1, 2)).mean(0).T  # over seeds
    assert overall.mean == pytest.approx(-stats.spearmanr(losses, accuracies).statistic)
    assert -1 < overall.interval[0] < overall.mean < overall.interval[1] < 1
    assert overall.verdict == "holds"
    assert [each.counted for each in within] == [False] * 3
    assert all(each.mean is not None and each.mean < 0 for each in within)


def test_the_pool_decides_which_probes_are_read() -> None:
    made = blocks(1)
    both = [
        replace(each, probes={**each.probes, "grid4": other.probes["mean"]})
        for each, other in zip(made.trials, blocks(-1).trials, strict=True)
    ]
    verdicts = [evaluate_claims(StudyEvidence(both, pool))[0].verdict for pool in ("mean", "grid4")]
    assert verdicts == ["holds", "does not hold"]
