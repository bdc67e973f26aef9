"""Regressions over the networks of a study: loss against accuracy, and encodings at equal loss.

Each architecture counts once, as its mean over seeds: seeds of one architecture are not independent.
Architectures are treated as independent with normal errors of equal variance, which so few cannot test.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from isopix.core.stats import MIN_POINTS, pearson_coefficient, rankdata
from isopix.studies.estimates import ErrorSource, Estimate
from isopix.studies.inductive_bias.evidence import Cells, Mean, StudyEvidence, Term
from isopix.studies.inductive_bias.trials import Architecture, Trial

Matrix = Float[np.ndarray, "n m"]
Weights = Float[np.ndarray, " m"]


def rank_correlation(evidence: StudyEvidence, trials: Sequence[Trial]) -> Mean:
    """Return minus Spearman's correlation of loss and accuracy, on Fisher's scale, atanh, where its error is
    normal: its variance is (1 + rho^2 / 2) / (n - 3) (Bonett and Wright 2000), n being the number of blocks
    with an encoding, as their depths may agree, or of architectures where there are few.

    Without an estimate for fewer than five architectures or two seeds, and for constants.
    """
    seeds, architectures = evidence.complete(trials)
    count = len(architectures)
    if count < MIN_POINTS or len(seeds) < 2:
        return Mean(None, (), {})

    def coefficient(chosen: Sequence[int]) -> float | None:
        own = [[evidence.by_seed[seed][each] for seed in chosen] for each in architectures]
        losses = np.array([np.mean([trial.loss for trial in group]) for group in own])
        found = [[evidence.probes(trial).test_accuracy for trial in group] for group in own]
        return pearson_coefficient(rankdata(losses), rankdata(np.mean(found, 1)))

    rho = coefficient(seeds)
    if rho is None:
        return Mean(None, (), {})
    limit = 1 - 6 / (count * (count**2 - 1))
    clusters = len({each[:2] for each in architectures})
    independent = clusters if clusters >= MIN_POINTS else count
    error = math.sqrt((1 + rho**2 / 2) / (independent - 3))
    center = math.atanh(min(limit, max(-limit, -rho)))
    estimate = Estimate(center, (ErrorSource("kinds", error, math.inf),), len(seeds), count)
    values = tuple(-(coefficient([seed]) or 0.0) for seed in seeds)
    return Mean(estimate, values, {})


def at_fixed_loss(evidence: StudyEvidence, first: str, second: str) -> Mean:
    """Return the accuracy of encoding `first` minus that of `second` at equal loss, in percentage points
    (analysis of covariance).

    Least squares of accuracy = a[block] + b[encoding] + c loss with a common slope c; the contrast is
    b[first] - b[second]. Without an estimate where the networks do not determine it or leave no residual.
    """
    blocks, encodings = (
        list(dict.fromkeys(getattr(trial, name) for trial in evidence.trials))
        for name in ("block", "encoding")
    )
    weights = np.zeros(len(blocks) + len(encodings) + 1)
    for encoding, sign in ((first, 1), (second, -1)):
        if encoding in encodings:
            weights[len(blocks) + encodings.index(encoding)] = sign
    return _combination(evidence, weights) if {first, second} <= set(encodings) else Mean(None, (), {})


def slope_on_loss(evidence: StudyEvidence) -> Mean:
    """Return the fall of accuracy with the loss in the same regression, in percentage points per nat."""
    blocks, encodings = (
        len({getattr(trial, name) for trial in evidence.trials}) for name in ("block", "encoding")
    )
    return _combination(evidence, np.array([*[0.0] * (blocks + encodings), -1.0]))


def _combination(evidence: StudyEvidence, weights: Weights) -> Mean:
    """Return a combination of the coefficients of the analysis of covariance.

    Its errors are that of least squares, with Student's distribution, and that of the test images, which
    enters by the weight of each network's accuracy.
    """
    seeds, architectures = evidence.complete(evidence.trials)
    if len(seeds) < 2:
        return Mean(None, (), {})
    design = _design(evidence, seeds, architectures)
    inverse = np.linalg.pinv(design)
    freedom = len(architectures) - int(np.linalg.matrix_rank(design))
    if freedom < 1 or not np.allclose(weights @ inverse @ design, weights):
        return Mean(None, (), {})
    shares = weights @ inverse  # of each architecture's accuracy in the combination
    accuracy = np.array(
        [
            [100 * evidence.probes(evidence.by_seed[seed][each]).test_accuracy for each in architectures]
            for seed in seeds
        ]
    )
    mean = accuracy.mean(0)
    residual = mean - design @ (inverse @ mean)
    error = math.sqrt(float(np.square(residual).sum()) / freedom * float(np.square(shares).sum()))
    rows = [
        [
            [Term(weight, evidence.probes(evidence.by_seed[seed][each]))]
            for weight, each in zip((len(shares) * shares).tolist(), architectures, strict=True)
        ]
        for seed in seeds
    ]
    images = evidence.mean_accuracy(Cells(rows, list(map(str, architectures)))).estimate
    sources = [ErrorSource("kinds", error, freedom)]
    sources += [each for each in (images.sources if images else ()) if each.name == "images"]
    count = images.images if images else 0
    estimate = Estimate(float(shares @ mean), tuple(sources), len(seeds), len(architectures), count)
    return Mean(estimate, tuple((accuracy @ shares).tolist()), {})


def _design(evidence: StudyEvidence, seeds: Sequence[int], architectures: Sequence[Architecture]) -> Matrix:
    """Return a row for each architecture: its block, its encoding and its mean loss."""
    blocks, encodings = (list(dict.fromkeys(each[place] for each in architectures)) for place in (0, 1))
    rows = [
        [*(block == each for each in blocks), *(encoding == each for each in encodings)]
        for block, encoding, _ in architectures
    ]
    losses = [np.mean([evidence.by_seed[seed][each].loss for seed in seeds]) for each in architectures]
    return np.column_stack([np.array(rows, dtype=float), losses])
