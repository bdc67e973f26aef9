"""Differences between networks that are equal in all but the block, the encoding or a layer.

A block can show a difference of accuracies if its networks are clearly (by two standard errors over seeds and
test images) above their baselines, one of losses or reconstructions if they predict better than frequencies.

In regressions each architecture counts once, as its mean over seeds, which are not independent. Architectures
are treated as independent with normal errors of equal variance, which so few cannot test.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from isopix.core.stats import MIN_POINTS, Z_95, pearson_coefficient, rankdata
from isopix.studies.claims import Contrast
from isopix.studies.estimates import ErrorSource, Estimate
from isopix.studies.inductive_bias.evidence import UNKNOWN, Mean, StudyEvidence, Term, kind_name
from isopix.studies.inductive_bias.results import Architecture, Trial

MAIN_BLOCKS = ("conv", "mixer", "transformer-1")
NO_SLOPE = "accuracy does not clearly fall with the loss"
NOT_ABOVE = "no block of these is, averaged over its networks, clearly above its baselines"
NOT_BELOW = (
    "no block of these, averaged over its networks, clearly predicts better than frequencies of levels"
)
LayerWeight = tuple[float, int | None]  # a weight of a layer's accuracy; None: the best one on validation


def make_contrast(evidence: StudyEvidence, text: str, unit: str, found: Mean, *regimes: str) -> Contrast:
    """Return a contrast, which cannot be judged for the first of `regimes` that is not empty."""
    effect = evidence.effects.get(unit, 0.0)
    why = next(filter(None, regimes), "") if found.estimate is not None else ""
    return Contrast(text, unit, found.estimate, found.values, found.by_kind, effect=effect, regime=why)


def difference(
    evidence: StudyEvidence,
    blocks: tuple[str, str],
    value: Callable[[Trial], float | None],
    only: tuple[str, int] | None = None,
) -> Mean:
    """Return the mean of `value` of the first block minus the second over kinds, or of `only` one."""

    def above(*pair: Trial) -> float | None:
        own, other = map(value, pair)
        return None if own is None or other is None else own - other

    find = evidence.of_blocks(blocks, above)
    if only is None:
        return evidence.mean_values(evidence.kinds(*blocks), find)
    return evidence.mean_values([only], find, evidence.value_noise(blocks, value))


def accuracy_difference(evidence: StudyEvidence, blocks: tuple[str, str]) -> Mean:
    """Return the mean difference of best-layer accuracy of two blocks, over encodings and depths."""
    terms = partial(difference_terms, evidence)
    return evidence.mean_accuracy(evidence.kinds(*blocks), evidence.of_blocks(blocks, terms))


def difference_terms(evidence: StudyEvidence, own: Trial, other: Trial) -> list[Term]:
    """Return the terms of the difference of two networks' best-layer accuracies."""
    return [Term(1, evidence.probes(own)), Term(-1, evidence.probes(other))]


def best_of_others(
    evidence: StudyEvidence, score: Callable[[Trial], float]
) -> dict[int, tuple[Trial, Trial]]:
    """Return for each seed the best network with pix2vec and the best without, by the other seeds.

    Chosen by the seed itself, the best of more networks would seem better without being so.
    """
    found = dict[int, tuple[Trial, Trial]]()
    seeds, architectures = evidence.complete(evidence.trials)
    scores = {
        each: np.array([score(evidence.by_seed[seed][each]) for seed in seeds]) for each in architectures
    }
    own = [each for each in architectures if each[1] == "pix2vec"]
    others = [each for each in architectures if each[1] != "pix2vec"]
    for place, seed in enumerate(seeds if len(seeds) > 1 and own and others else ()):
        means = {each: np.delete(values, place).mean() for each, values in scores.items()}
        best = (max(group, key=means.__getitem__) for group in (own, others))
        first, other = (evidence.by_seed[seed][each] for each in best)
        found[seed] = first, other
    return found


def at_layers(
    evidence: StudyEvidence, network: tuple[str, int], encodings: tuple[str, str], layers: Iterable[int]
) -> Iterable[Contrast]:
    """Yield the accuracy of the first encoding minus that of the second, a contrast for each layer."""
    shown = accuracy_regime(evidence, [network[0]], network[1])
    for layer in layers:
        found = layer_difference(evidence, network, encodings, only_layer(layer))
        text = f"accuracy of {kind_name(network)}, layer {layer}: {encodings[0]} − {encodings[1]}"
        yield make_contrast(evidence, text, "points", found, shown)


def layer_difference(
    evidence: StudyEvidence,
    network: tuple[str, int],
    encodings: tuple[str, str],
    read: Callable[[Trial], list[LayerWeight]],
    networks: int = 2,
) -> Mean:
    """Return the mean over seeds of `read` of the layers with the first encoding minus the second."""
    block, depth = network

    def terms(seed: int, kind: object) -> list[Term] | None:
        pair = [evidence.by_seed[seed].get((block, encoding, depth)) for encoding in encodings]
        known = [(sign, each) for sign, each in zip((1, -1), pair, strict=True) if each is not None]
        if len(known) < 2:
            return None
        return [
            Term(sign * w, evidence.probes(each), layer) for sign, each in known for w, layer in read(each)
        ]

    noise = evidence.accuracy_noise([block], networks)
    return evidence.mean_accuracy([kind_name(network)], terms, noise)


def only_layer(layer: int | None) -> Callable[[Trial], list[LayerWeight]]:
    """Return a function that reads one layer; None: the one that is best on validation images."""
    return lambda trial: [(1.0, layer)]


def range_terms(evidence: StudyEvidence, trial: Trial) -> list[LayerWeight]:
    """Return the best layer minus the worst, chosen by other seeds' networks: noise would seem a range."""
    others = [
        trials.get(trial.architecture) for seed, trials in evidence.by_seed.items() if seed != trial.seed
    ]
    known = [evidence.probes(each).validation_accuracies for each in others if each is not None]
    means = np.mean(known or [evidence.probes(trial).validation_accuracies], 0)
    return [(1.0, int(means.argmax())), (-1.0, int(means.argmin()))]


def missing_blocks(evidence: StudyEvidence) -> str:
    """Return which block has no network at all; a claim over all networks is not one over the others."""
    missing = [block for block in MAIN_BLOCKS if block not in evidence.blocks]
    return f"no {' and no '.join(missing)} was trained" if missing and evidence.trials else ""


def accuracy_regime(evidence: StudyEvidence, blocks: Sequence[str], depth: int | None = None) -> str:
    """Return why no block of these can show accuracies, of the networks of one depth if it is given."""
    return "" if any(_above_baselines(evidence, block, depth) for block in blocks) else NOT_ABOVE


def prediction_regime(evidence: StudyEvidence, blocks: Sequence[str]) -> str:
    """Return why no block of these can show losses or reconstructions."""
    return "" if any(_below_unigram(evidence, block) for block in blocks) else NOT_BELOW


def _above_baselines(evidence: StudyEvidence, block: str, depth: int | None) -> bool:
    own = [trial for trial in evidence.trials if trial.block == block and depth in (None, trial.depth)]
    names = dict.fromkeys(name for trial in own for name in trial.probes[evidence.pool].baselines)

    def gain(name: str) -> Mean:
        def terms(trial: Trial) -> list[Term] | None:
            baseline = trial.probes[evidence.pool].baselines.get(name)
            return None if baseline is None else [Term(1, evidence.probes(trial)), Term(-1, baseline)]

        return evidence.mean_accuracy((trial.kind for trial in own), evidence.of_blocks([block], terms))

    return bool(names) and all(_clearly_positive(gain(name)) for name in names)


def _below_unigram(evidence: StudyEvidence, block: str) -> bool:
    """Whether a block's loss is clearly below that of predicting frequencies; so where this is not known."""

    def gain(trial: Trial) -> float | None:
        unigram = trial.measurements.get("unigram")
        return None if unigram is None else float(unigram) - trial.loss

    found = evidence.mean_values(evidence.kinds(block), evidence.of_blocks([block], gain))
    return not found.values or _clearly_positive(found)


def _clearly_positive(found: Mean) -> bool:
    estimate = found.estimate
    if estimate is None:
        return False
    errors = [each.standard_error for each in estimate.sources if each.name != "kinds"]
    return estimate.mean > Z_95 * math.hypot(*errors)


def rank_correlation(evidence: StudyEvidence, trials: Sequence[Trial]) -> Mean:
    """Return minus Spearman's correlation of loss and accuracy, on Fisher's scale (atanh).

    Its variance is (1 + rho^2 / 2) / (n - 3) (Bonett and Wright 2000), n being the number of blocks with an
    encoding, as their depths may agree, or of architectures where there are few.
    """
    seeds, architectures = evidence.complete(trials)
    count = len(architectures)
    if count < MIN_POINTS or len(seeds) < 2:
        return UNKNOWN

    def coefficient(chosen: Sequence[int]) -> float | None:
        own = [[evidence.by_seed[seed][each] for seed in chosen] for each in architectures]
        losses = np.array([np.mean([trial.loss for trial in group]) for group in own])
        found = [[evidence.probes(trial).test_accuracy for trial in group] for group in own]
        return pearson_coefficient(rankdata(losses), rankdata(np.mean(found, 1)))

    rho = coefficient(seeds)
    if rho is None:
        return UNKNOWN
    limit = 1 - 6 / (count * (count**2 - 1))
    clusters = len({each[:2] for each in architectures})
    independent = clusters if clusters >= MIN_POINTS else count
    error = math.sqrt((1 + rho**2 / 2) / (independent - 3))
    center = math.atanh(min(limit, max(-limit, -rho)))
    estimate = Estimate(center, (ErrorSource("kinds", error, math.inf),), len(seeds), count)
    return Mean(estimate, tuple(-(coefficient([seed]) or 0.0) for seed in seeds), {})


def at_fixed_loss(evidence: StudyEvidence, first: str, second: str) -> Mean:
    """Return the accuracy of encoding `first` minus that of `second` at equal loss, in percentage points."""
    return _covariance(evidence, {first: 1.0, second: -1.0})


def slope_on_loss(evidence: StudyEvidence) -> Mean:
    """Return the fall of accuracy with the loss in the same regression, in percentage points per nat."""
    return _covariance(evidence, {"loss": -1.0})


def _covariance(evidence: StudyEvidence, weights: Mapping[str, float]) -> Mean:
    """Return a combination of the coefficients of accuracy = a[block] + b[encoding] + c loss.

    Its errors are that of least squares, with Student's distribution, and that of the test images; none where
    the networks do not determine it or leave no residual.
    """
    seeds, architectures = evidence.complete(evidence.trials)
    blocks, encodings = (list(dict.fromkeys(each[place] for each in architectures)) for place in (0, 1))
    names = [*map(str, blocks + encodings), "loss"]
    if len(seeds) < 2 or not weights.keys() <= set(names):
        return UNKNOWN
    trials = [[evidence.by_seed[seed][each] for each in architectures] for seed in seeds]
    levels = [[float(name in each[:2]) for name in names[:-1]] for each in architectures]
    losses = [np.mean([trial.loss for trial in own]) for own in zip(*trials, strict=True)]
    design, wanted = np.column_stack([levels, losses]), np.array([weights.get(name, 0.0) for name in names])
    inverse = np.linalg.pinv(design)
    freedom = len(architectures) - int(np.linalg.matrix_rank(design))
    if freedom < 1 or not np.allclose(wanted @ inverse @ design, wanted):
        return UNKNOWN
    shares = wanted @ inverse  # of each architecture's accuracy in the combination
    accuracy = np.array([[100 * evidence.probes(trial).test_accuracy for trial in row] for row in trials])
    mean = accuracy.mean(0)
    residual = mean - design @ (inverse @ mean)
    error = math.sqrt(float(np.square(residual).sum()) / freedom * float(np.square(shares).sum()))
    weight = dict(zip(architectures, (len(shares) * shares).tolist(), strict=True))

    def terms(seed: int, architecture: Architecture) -> list[Term] | None:
        trial = evidence.by_seed[seed].get(architecture)
        return None if trial is None else [Term(weight[architecture], evidence.probes(trial))]

    images = evidence.mean_accuracy(architectures, terms).estimate
    sources = [ErrorSource("kinds", error, freedom)]
    sources += [each for each in (images.sources if images else ()) if each.name == "images"]
    count = images.images if images else 0
    estimate = Estimate(float(shares @ mean), tuple(sources), len(seeds), len(architectures), count)
    return Mean(estimate, tuple((accuracy @ shares).tolist()), {})
