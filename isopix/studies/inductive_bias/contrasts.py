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

from isopix.core.stats import Z_95, pearson_coefficient, rankdata
from isopix.studies.claims import Contrast, ErrorSource, Estimate, Mean, Noise
from isopix.studies.inductive_bias.evidence import UNKNOWN, Read, StudyEvidence, Term
from isopix.studies.inductive_bias.results import Trial, network_name

MIN_POINTS = 5  # below which no correlation is reported
MAIN_BLOCKS = ("conv", "mixer", "transformer-1")
NO_SLOPE = "accuracy does not clearly fall with the loss"
NOT_ABOVE = "no block of these is, averaged over its networks, clearly above its baselines"
NOT_BELOW = (
    "no block of these, averaged over its networks, clearly predicts better than frequencies of levels"
)


def loss(trial: Trial) -> list[Term]:
    """Return the loss in nats."""
    return [Term(1, trial.loss)]


def falling_loss(trial: Trial) -> list[Term]:
    """Return minus the loss in nats."""
    return [Term(-1, trial.loss)]


def minus(first: list[Term] | None, other: list[Term] | None) -> list[Term] | None:
    """Return the terms of a difference; None if one of its numbers is not known."""
    return None if first is None or other is None else [*first, *(term.times(-1) for term in other)]


def _pair(read: Read) -> Read:
    return lambda own, other: minus(read(own), read(other))


def difference(
    evidence: StudyEvidence, blocks: tuple[str, str], read: Read, only: tuple[str, int] | None = None
) -> Mean:
    """Return the mean of a number of the first block minus the second over kinds, or of `only` one."""
    find = evidence.reading(lambda kind: [(block, *kind) for block in blocks], _pair(read))
    if only is None:
        return evidence.mean(evidence.kinds(*blocks), find)
    return evidence.mean([only], find, evidence.noise(blocks, read))


def best_difference(
    evidence: StudyEvidence, score: Callable[[Trial], float], read: Read, noise: Noise | None
) -> Mean:
    """Return the mean of a number of the best network with pix2vec minus that of the best one without.

    They are the best of the other seeds. Chosen by the seed itself, the best of more networks would seem
    better without being so.
    """
    found = dict[int, list[Term] | None]()
    seeds, architectures = evidence.complete(evidence.trials)
    trials = [evidence.by_seed[seed] for seed in seeds]
    scores = {each: np.array([score(networks[each]) for networks in trials]) for each in architectures}
    own = [each for each in architectures if each[1] == "pix2vec"]
    others = [each for each in architectures if each[1] != "pix2vec"]
    for place, seed in enumerate(seeds if len(seeds) > 1 and own and others else ()):
        means = {each: np.delete(values, place).mean() for each, values in scores.items()}
        best = (max(group, key=means.__getitem__) for group in (own, others))
        found[seed] = _pair(read)(*(evidence.by_seed[seed][each] for each in best))
    return evidence.mean([("best",)], lambda seed, kind: found.get(seed), noise)


def at_layers(
    evidence: StudyEvidence, network: tuple[str, int], encodings: tuple[str, str], layers: Iterable[int]
) -> Iterable[Contrast]:
    """Yield the accuracy of the first encoding minus that of the second, a contrast for each layer."""
    shown = accuracy_regime(evidence, [network[0]], network[1])
    for layer in layers:
        found = encoding_difference(evidence, network, encodings, partial(evidence.accuracy, layer=layer))
        text = f"accuracy of {network_name(network)}, layer {layer}: {encodings[0]} − {encodings[1]}"
        yield Contrast(text, "points", found, shown)


def encoding_difference(
    evidence: StudyEvidence,
    network: tuple[str, int],
    encodings: tuple[str, str],
    read: Read,
    networks: int = 2,
) -> Mean:
    """Return the mean over seeds of accuracies of a network with the first encoding minus the second."""
    block, depth = network
    find = evidence.reading(lambda kind: [(block, each, depth) for each in encodings], _pair(read))
    return evidence.mean([network], find, evidence.noise([block], evidence.layers, networks))


def layer_range(evidence: StudyEvidence, trial: Trial) -> list[Term]:
    """Return the best layer minus the worst, chosen by other seeds' networks: noise would seem a range."""
    others = [
        trials.get(trial.architecture) for seed, trials in evidence.by_seed.items() if seed != trial.seed
    ]
    known = [evidence.probes(each).validation_accuracies for each in others if each is not None]
    means = np.mean(known or [evidence.probes(trial).validation_accuracies], 0)
    layers = evidence.layers(trial)
    return [layers[means.argmax()], layers[means.argmin()].times(-1)]


def accuracy_regime(evidence: StudyEvidence, blocks: Sequence[str], depth: int | None = None) -> str:
    """Return why no block of these can show accuracies, of the networks of one depth if it is given.

    Without one of the blocks, a claim over all of them is not one over the others.
    """
    able = any(_above_baselines(evidence, block, depth) for block in blocks)
    return _missing(evidence, blocks) or ("" if able else NOT_ABOVE)


def prediction_regime(evidence: StudyEvidence, blocks: Sequence[str]) -> str:
    """Return why no block of these can show losses or reconstructions."""
    able = any(_below_unigram(evidence, block) for block in blocks)
    return _missing(evidence, blocks) or ("" if able else NOT_BELOW)


def _missing(evidence: StudyEvidence, blocks: Sequence[str]) -> str:
    missing = [block for block in blocks if block not in evidence.blocks]
    return f"no {' and no '.join(missing)} was trained" if missing else ""


def _above_baselines(evidence: StudyEvidence, block: str, depth: int | None) -> bool:
    own = [trial for trial in evidence.trials if trial.block == block and depth in (None, trial.depth)]
    names = dict.fromkeys(name for trial in own for name in trial.probes[evidence.pool].baselines)

    def gain(name: str) -> Mean:
        def read(trial: Trial) -> list[Term] | None:
            baseline = trial.probes[evidence.pool].baselines.get(name)
            known = None if baseline is None else [evidence.accuracy_of(baseline)]
            return minus(evidence.accuracy(trial), known)

        return evidence.mean((each.architecture for each in own), evidence.reading(lambda kind: [kind], read))

    return bool(names) and all(_clearly_positive(gain(name)) for name in names)


def _below_unigram(evidence: StudyEvidence, block: str) -> bool:
    """Whether a block's loss is clearly below that of predicting frequencies; so where this is not known."""

    def gain(trial: Trial) -> list[Term] | None:
        unigram = trial.measurements.get("unigram")
        return None if unigram is None else minus([Term(1, unigram)], loss(trial))

    found = evidence.mean(evidence.kinds(block), evidence.reading(lambda kind: [(block, *kind)], gain))
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
    estimate = Estimate(center, (ErrorSource("kinds", error, math.inf),))
    return Mean(estimate, tuple(-(coefficient([seed]) or 0.0) for seed in seeds), {})


def at_equal_loss(evidence: StudyEvidence, weights: Mapping[str, float]) -> Mean:
    """Return a combination of the coefficients of accuracy = a[block] + b[encoding] + c loss, in points.

    `weights` are by the name of a block or an encoding, or "loss" for the slope c, in points per nat. The
    errors are that of least squares, with Student's distribution, and that of the test images; none where
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

    def weighted(trial: Trial) -> list[Term]:
        return [term.times(weight[trial.architecture]) for term in evidence.accuracy(trial)]

    images = evidence.mean(architectures, evidence.reading(lambda kind: [kind], weighted)).estimate
    sources = [ErrorSource("kinds", error, freedom)]
    sources += [each for each in (images.sources if images else ()) if each.name == "images"]
    estimate = Estimate(float(shares @ mean), tuple(sources))
    return Mean(estimate, tuple((accuracy @ shares).tolist()), {})
