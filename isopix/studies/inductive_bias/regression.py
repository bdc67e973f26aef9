"""Regressions over the networks of a study: loss against accuracy, and encodings at equal loss.

Each architecture counts once, as its mean over seeds: seeds of one architecture are not independent.
Architectures are treated as independent with normal errors of equal variance, which so few cannot test.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from isopix.core.stats import MIN_POINTS, pearson_coefficient, rankdata
from isopix.studies.estimates import ErrorSource, Estimate
from isopix.studies.inductive_bias.evidence import UNKNOWN, Mean, StudyEvidence, Term
from isopix.studies.inductive_bias.results import Architecture, Trial


def rank_correlation(evidence: StudyEvidence, trials: Sequence[Trial]) -> Mean:
    """Return minus Spearman's correlation of loss and accuracy, on Fisher's scale, atanh, where its error is
    normal: its variance is (1 + rho^2 / 2) / (n - 3) (Bonett and Wright 2000), n being the number of blocks
    with an encoding, as their depths may agree, or of architectures where there are few.

    Without an estimate for fewer than five architectures or two seeds, and for constants.
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
    """Return a combination of the coefficients of the analysis of covariance, least squares of
    accuracy = a[block] + b[encoding] + c loss with a common slope c.

    Its errors are that of least squares, with Student's distribution, and that of the test images, which
    enters by the weight of each network's accuracy. Without an estimate where the networks do not determine
    it or leave no residual.
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
