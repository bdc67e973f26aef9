"""The ten claims of "On the Bias Against Inductive Biases" (Cazenavette and Lucey 2021), tested by trials.

The paper's claims are the shapes of scatter plots. Each is split into contrasts, between networks that are
equal in everything else, that are positive if it is true. The best layer or network is chosen on validation
images. Where a study has no network of the paper's depth, its deepest one is used and named.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from isopix.studies.claims import Contrast, judge
from isopix.studies.inductive_bias.contrasts import (
    MAIN_BLOCKS,
    NO_SLOPE,
    accuracy_difference,
    accuracy_regime,
    at_fixed_loss,
    at_layers,
    best_of_others,
    difference,
    difference_terms,
    layer_difference,
    make_contrast,
    missing_blocks,
    only_layer,
    prediction_regime,
    range_terms,
    rank_correlation,
    slope_on_loss,
)
from isopix.studies.inductive_bias.evidence import StudyEvidence, Term
from isopix.studies.inductive_bias.results import Trial
from isopix.studies.results import ClaimRecord

Test = Callable[[StudyEvidence], Iterable[Contrast]]


class Claim(NamedTuple):
    """A statement of the paper, its place there, and its contrasts."""

    letter: str
    source: str
    text: str
    test: Test


CLAIMS: list[Claim] = []


def _claim(letter: str, source: str, text: str) -> Callable[[Test], Test]:
    def add(test: Test) -> Test:
        CLAIMS.append(Claim(letter, source, text, test))
        return test

    return add


def evaluate_claims(evidence: StudyEvidence) -> list[ClaimRecord]:
    """Return all ten claims with Holm's correction across them; missing trials leave one undecided."""
    return judge([(each.letter, each.text, each.source, list(each.test(evidence))) for each in CLAIMS])


@_claim("a", "figure 4", "Convolutions beat mixers, and mixers by far transformers, in loss and in accuracy.")
def _blocks(evidence: StudyEvidence) -> Iterable[Contrast]:
    pairs = [("conv", "mixer"), ("mixer", "transformer-1")]
    pairs += [("mixer", block) for block in sorted({*evidence.blocks} - {*MAIN_BLOCKS})]
    for better, worse in pairs:
        losses = difference(evidence, (worse, better), lambda trial: trial.loss)
        text, predicted = f"loss({worse}) − loss({better})", prediction_regime(evidence, (better, worse))
        yield make_contrast(evidence, text, "nats", losses, predicted)
        accuracies = accuracy_difference(evidence, (better, worse))
        text, shown = f"accuracy({better}) − accuracy({worse})", accuracy_regime(evidence, (better, worse))
        yield make_contrast(evidence, text, "points", accuracies, shown)


@_claim("b", "section 5.1", "The lower the loss, the better the probe, over all networks.")
def _correlation(evidence: StudyEvidence) -> Iterable[Contrast]:
    found = rank_correlation(evidence, evidence.trials)
    text = "negative rank correlation of loss and accuracy"
    yield replace(make_contrast(evidence, text, "", found, *_all_accuracies(evidence)), fisher=True)
    for block in evidence.blocks:
        own = [trial for trial in evidence.trials if trial.block == block]
        within = make_contrast(evidence, f"the same within {block}", "", rank_correlation(evidence, own))
        yield replace(within, fisher=True, counted=False)


@_claim(
    "c",
    "section 5.2",
    "At equal loss, continuous input has the best probe accuracy, then Fourier features, then pix2vec.",
)
def _equal_loss(evidence: StudyEvidence) -> Iterable[Contrast]:
    slope = slope_on_loss(evidence)
    falls = slope.estimate is not None and slope.estimate.mean - slope.estimate.half_width() > 0
    regimes = *_all_accuracies(evidence), "" if falls else NO_SLOPE
    for better, worse in (("continuous", "fourier"), ("fourier", "pix2vec")):
        text = f"accuracy at equal loss: {better} − {worse}"
        yield make_contrast(evidence, text, "points", at_fixed_loss(evidence, better, worse), *regimes)
    text = "fall of accuracy with the loss, between networks of a block and an encoding"
    yield replace(make_contrast(evidence, text, "points per nat", slope), counted=False)


@_claim("d", "section 5.2", "The best network in both uses pix2vec.")
def _best(evidence: StudyEvidence) -> Iterable[Contrast]:
    losses = best_of_others(evidence, lambda trial: -trial.loss)
    noise = evidence.value_noise(evidence.blocks, lambda trial: trial.loss)
    found = evidence.mean_values(["best"], lambda seed, kind: _loss_gap(losses.get(seed)), noise)
    text = "lowest loss: without pix2vec − with pix2vec"
    yield make_contrast(evidence, text, "nats", found, *_all_losses(evidence))
    bests = best_of_others(evidence, lambda trial: evidence.probes(trial).validation_accuracy)
    found = evidence.mean_accuracy(
        ["best"],
        lambda seed, kind: difference_terms(evidence, *bests[seed]) if seed in bests else None,
        evidence.accuracy_noise(evidence.blocks),
    )
    text = "best accuracy: with pix2vec − without pix2vec"
    yield make_contrast(evidence, text, "points", found, *_all_accuracies(evidence))


@_claim("e", "figure 6", "Deeper networks are better.")
def _depth(evidence: StudyEvidence) -> Iterable[Contrast]:
    kinds = list(dict.fromkeys((trial.block, trial.encoding) for trial in evidence.trials))

    def weights(seed: int, kind: Any) -> list[tuple[float, Trial]] | None:
        own = [each for each in evidence.by_seed[seed].values() if (each.block, each.encoding) == kind]
        depths = {each.depth for each in evidence.trials if (each.block, each.encoding) == kind}
        if len(depths) < 2 or {each.depth for each in own} != depths:
            return None
        log = np.log2([each.depth for each in own])
        slopes = (log - log.mean()) / np.square(log - log.mean()).sum()
        return list(zip(slopes.tolist(), own, strict=True))

    def loss(seed: int, kind: Any) -> float | None:
        found = weights(seed, kind)
        return None if found is None else -sum(weight * trial.loss for weight, trial in found)

    text, found = "loss reduction per doubling of depth", evidence.mean_values(kinds, loss)
    yield make_contrast(evidence, text, "nats per doubling", found, *_all_losses(evidence))

    def terms(seed: int, kind: Any) -> list[Term] | None:
        found = weights(seed, kind)
        return None if found is None else [Term(each, evidence.probes(trial)) for each, trial in found]

    found = evidence.mean_accuracy(kinds, terms)
    text = "accuracy gain per doubling of depth"
    yield make_contrast(evidence, text, "points per doubling", found, *_all_accuracies(evidence))


@_claim("f", "figure 6", "In convolutions the middle layers have the best probe accuracy.")
def _middle(evidence: StudyEvidence) -> Iterable[Contrast]:
    kinds = [kind for kind in evidence.kinds("conv") if kind[1] > 1]

    def above(end: int) -> Callable[[int, Any], list[Term] | None]:
        def terms(trial: Trial) -> list[Term]:
            probed = evidence.probes(trial)
            inner = max(range(1, trial.depth), key=probed.validation_accuracies.__getitem__)
            return [Term(1, probed, inner), Term(-1, probed, end % (trial.depth + 1))]

        return evidence.of_blocks(["conv"], terms)

    for text, end in (("last", -1), ("first", 0)):
        found = evidence.mean_accuracy(kinds, above(end))
        words = f"accuracy of convolutions: best inner layer − {text} layer"
        yield make_contrast(evidence, words, "points", found, accuracy_regime(evidence, ["conv"]))


@_claim(
    "g",
    "figure 7",
    "In a mixer of 6 blocks Fourier features beat continuous input at every layer, and pix2vec is "
    "equally bad at all.",
)
def _mixers(evidence: StudyEvidence) -> Iterable[Contrast]:
    depth = evidence.deepest("mixer", 6)
    shown = accuracy_regime(evidence, ["mixer"], depth)
    yield from at_layers(evidence, ("mixer", depth), ("fourier", "continuous"), range(depth + 1))
    found = layer_difference(evidence, ("mixer", depth), ("fourier", "pix2vec"), only_layer(None))
    text = f"accuracy of mixer-{depth}, best layers: fourier − pix2vec"
    yield make_contrast(evidence, text, "points", found, shown)
    found = layer_difference(
        evidence, ("mixer", depth), ("fourier", "pix2vec"), partial(range_terms, evidence), networks=4
    )
    text = f"accuracy of mixer-{depth}, range over layers: fourier − pix2vec"
    yield make_contrast(evidence, text, "points", found, shown)


@_claim(
    "h",
    "figure 7",
    "In a one-headed transformer of 6 blocks pix2vec beats the others at all layers but the last.",
)
def _transformers(evidence: StudyEvidence) -> Iterable[Contrast]:
    depth = evidence.deepest("transformer-1", 6)
    for other in ("fourier", "continuous"):
        yield from at_layers(evidence, ("transformer-1", depth), ("pix2vec", other), range(depth))


@_claim(
    "i",
    "figure 5",
    "pix2vec preserves distance most in convolutions, less in mixers, and hardly in transformers.",
)
def _preservation(evidence: StudyEvidence) -> Iterable[Contrast]:
    depth = min(evidence.deepest(block, 3) for block in MAIN_BLOCKS)

    def red(trial: Trial) -> float | None:
        channels = trial.measurements.get("distance_preservation")
        return None if channels is None or trial.encoding != "pix2vec" else channels[0]

    for better, worse in (("conv", "mixer"), ("mixer", "transformer-1")):
        text = f"distance preservation of red: {better}-{depth} − {worse}-{depth}"
        found = difference(evidence, (better, worse), red, only=("pix2vec", depth))
        yield make_contrast(evidence, text, "", found)


@_claim(
    "j",
    "figure 1",
    "Convolutions reconstruct almost perfectly, mixers misplace the right colors, and transformers "
    "predict wrong ones.",
)
def _reconstructions(evidence: StudyEvidence) -> Iterable[Contrast]:
    def color_error(name: str) -> Callable[[Trial], float | None]:
        def value(trial: Trial) -> float | None:
            errors = trial.measurements.get("color_error")
            return None if errors is None else 100 * errors[name]

        return value

    pairs = (
        ("error", ("mixer", "conv"), "mean_absolute", "% of range"),
        ("error", ("transformer-1", "mixer"), "mean_absolute", "% of range"),
        ("color histogram error", ("transformer-1", "mixer"), "histogram", "% of range"),
        ("misplaced fraction", ("mixer", "transformer-1"), "misplaced_fraction", "%"),
    )
    for what, (worse, better), name, unit in pairs:
        found = difference(evidence, (worse, better), color_error(name))
        predicted = prediction_regime(evidence, (worse, better))
        yield make_contrast(evidence, f"{what}({worse}) − {what}({better})", unit, found, predicted)


def _all_accuracies(evidence: StudyEvidence) -> tuple[str, str]:
    return missing_blocks(evidence), accuracy_regime(evidence, MAIN_BLOCKS)


def _all_losses(evidence: StudyEvidence) -> tuple[str, str]:
    return missing_blocks(evidence), prediction_regime(evidence, MAIN_BLOCKS)


def _loss_gap(pair: tuple[Trial, Trial] | None) -> float | None:
    return None if pair is None else pair[1].loss - pair[0].loss
