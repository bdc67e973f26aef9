"""Scores of single images by a model, lossless files and code frequencies, and the AUROC between two sets."""

from collections import defaultdict

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import brentq
from scipy.special import ndtri
from torch import Tensor

from isopix.analysis.likelihood import (
    CodeValues,
    Frequencies,
    PerImage,
    ScoreConfig,
    bits_per_dim,
    code_nats,
    file_bits_per_dim,
    frequency_nats,
    has_likelihood,
    require_scores,
    score_batches,
)
from isopix.analysis.results import AUROC, SCORES, ScoreSummary
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.stats import CONFIDENCE_LEVEL, ResampleCounts, mean_standard_error, resample_counts
from isopix.core.types import Codes, Groups, ImageSequence
from isopix.model.heads import HeadSpec
from isopix.objectives.base import PretrainModel

RESAMPLES_AT_A_TIME = 50  # for memory: of 100,000 images 40 MB

ManyGroups = Int[Tensor, " _"] | None
Values = Float[np.ndarray, " _"]
Scores = dict[str, PerImage]  # by the names of SCORES


def score_images(
    model: PretrainModel,
    head: HeadSpec,
    images: ImageSequence,
    config: ScoreConfig,
    *,
    frequencies: Frequencies | None = None,
) -> Scores:
    """Return the scores of each image; higher is less likely, or harder to compress.

    An autoregressive model has `nats_per_code` and, where the codec says how many 24-bit images have the same
    codes, bits per dimension and their difference to PNG; a masked one `masked_loss`, which is no likelihood.
    """
    require_scores(model)
    codec, probable = model.network.codec, has_likelihood(model, head)
    values = codec.values_per_code() if probable else None
    parts, done = defaultdict[str, list[PerImage]](list), 0

    def add(name: str, codes: Codes, nats: CodeValues, per_image: PerImage) -> None:
        parts[f"{name}nats_per_code" if probable or name else "masked_loss"].append(per_image)
        if values is not None:
            parts[f"{name}bits_per_dim"].append(bits_per_dim(codec, codes, nats, values))

    with track("scoring images", len(images)) as count:
        for batch in score_batches(model, images):
            found = code_nats(model, batch, config)
            add("", found.codes, found.nats, found.per_image)
            if frequencies is not None:
                nats = frequency_nats(codec, frequencies, found.codes)
                add("unigram_", found.codes, nats, nats.mean((1, 2)))
            for kind, bits in file_bits_per_dim(batch).items():
                parts[f"{kind.lower()}_bits_per_dim"].append(bits)
            done += len(batch)
            count(done)
    scores = {each: torch.cat(part) for each, part in parts.items()}
    if "bits_per_dim" in scores:
        scores["bits_minus_png"] = scores["bits_per_dim"] - scores["png_bits_per_dim"]
    return {each: scores[each] for each in SCORES if each in scores}


def summarize(values: PerImage, groups: Groups | None = None) -> ScoreSummary:
    """Return the summary of a score; the standard error is that of independent groups."""
    count = len(values)
    error = mean_standard_error(values.numpy(), None if groups is None else groups.numpy())
    deviation = float(values.std()) if count > 1 else None
    return ScoreSummary(count, float(values.mean()), deviation, error and error[0])


def auroc(
    first: Values,
    second: Values,
    *,
    groups: tuple[ManyGroups, ManyGroups] = (None, None),
    num_resamples: int = 1000,
    seed: int = 0,
) -> AUROC:
    """Return the AUROC with its percentile interval over resamples of the images, or groups, of each set.

    Where the scores separate the sets completely, as all resamples do, the interval is Newcombe's.
    """
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415

    labels = np.repeat([0, 1], [len(first), len(second)])
    value = float(roc_auc_score(labels, np.concatenate([first, second])))
    pairs = list(zip((first, second), groups, strict=True))
    if value in (0, 1):
        sizes = (len(values) if own is None else len(set(own.tolist())) for values, own in pairs)
        bound = _separated_bound(*sizes)
        return AUROC(1.0, bound, 1.0) if value else AUROC(0.0, 0.0, 1 - bound)
    draws, found = [generator(seed, "auroc", each) for each in (0, 1)], []
    for start in range(0, num_resamples, RESAMPLES_AT_A_TIME):
        count = min(RESAMPLES_AT_A_TIME, num_resamples - start)
        counts = (
            resample_counts(len(values), count, draw, own)
            for (values, own), draw in zip(pairs, draws, strict=True)
        )
        found.append(_weighted(first, second, *counts))
    tail = (1 - CONFIDENCE_LEVEL) / 2
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail])
    return AUROC(value, float(low), float(high))


def _separated_bound(first: int, second: int) -> float:
    """Return the lower limit of the 95 % interval of an AUROC of 1 of so many images in each set.

    Newcombe, "Confidence intervals for an effect size measure based on the Mann-Whitney statistic", part 2,
    2006, method 5: the A at which 1 - A is z standard errors, with the variance A (1 - A) (1 + k ((1 - A) /
    (2 - A) + A / (1 + A))) / (m n), k = (m + n) / 2 - 1.
    """
    squared_z = ndtri((1 + CONFIDENCE_LEVEL) / 2) ** 2

    def excess(area: float) -> float:
        others = ((first + second) / 2 - 1) * ((1 - area) / (2 - area) + area / (1 + area))
        return float(1 - area - squared_z * area * (1 + others) / (first * second))

    return float(brentq(excess, 0, 1))


def _weighted(first: Values, second: Values, counts: ResampleCounts, others: Float[Tensor, "R _"]) -> Values:
    """Return the AUROC of each resample, from its counts of the images of each set at every value."""
    distinct, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    totals = []
    for weights, index in ((counts, place[: len(first)]), (others, place[len(first) :])):
        summed = torch.zeros(len(weights), len(distinct), dtype=torch.float64)
        totals.append(summed.index_add_(1, torch.from_numpy(index), weights.double()))
    below = totals[0].cumsum(1) - totals[0] / 2
    pairs = totals[0].sum(1) * totals[1].sum(1)
    return ((below * totals[1]).sum(1) / pairs).numpy()
