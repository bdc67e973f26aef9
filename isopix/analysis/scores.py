"""Scores of single images: of a model, of lossless files and of code frequencies, in one pass over them."""

import math
from collections import defaultdict

import torch

from isopix.analysis.complexity import Frequencies, file_bits_per_dim, frequency_nats
from isopix.analysis.likelihood import (
    CodeValues,
    PerImage,
    ScoreConfig,
    bits_per_dim,
    code_nats,
    has_likelihood,
    require_scores,
    score_batches,
)
from isopix.analysis.results import SCORES, ScoreSummary
from isopix.core.progress import track
from isopix.core.types import Codes, Groups, ImageSequence
from isopix.model.heads import HeadSpec
from isopix.objectives.base import PretrainModel

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
    codes, bits per dimension and their difference to PNG. A masked model has `masked_loss`, the mean over the
    codes that are predicted under the masks (`code_nats`), which is no likelihood. Raises ValueError
    for a model without either.
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
    distinct, group = torch.unique(torch.arange(count) if groups is None else groups, return_inverse=True)
    number, centered = len(distinct), values - values.mean()
    sums = torch.zeros(number, dtype=values.dtype).index_add_(0, group, centered)
    error = math.sqrt(float(sums.square().sum()) * number / (number - 1)) / count if number > 1 else None
    return ScoreSummary(count, float(values.mean()), float(values.std()) if count > 1 else None, error)
