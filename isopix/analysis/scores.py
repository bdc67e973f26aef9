"""Scores of single images by a model, lossless files and code frequencies, and the AUROC between two sets.

A code of a palette stands for all colors of its cell. With a uniform distribution over these, the model of
codes is one of 24-bit images x: -log2 p(x) = sum over codes of -log2 p(code) + log2(colors of the cell), the
length in bits of a lossless file of x by arithmetic coding.
"""

import math
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int
from PIL import Image, features
from scipy.optimize import brentq
from scipy.special import ndtri
from torch import Tensor

from isopix.analysis.results import AUROC, SCORES, ScoreSummary
from isopix.codecs.base import Codec
from isopix.core.device import Precision, autocast, eval_batch_size
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.stats import CONFIDENCE_LEVEL, ResampleCounts, mean_standard_error, resample_counts
from isopix.core.types import Codes, Groups, Images, ImageSequence, image_batches
from isopix.data.splits import Split
from isopix.model.heads import HeadSpec
from isopix.objectives.base import PretrainModel, TrainingBatch
from isopix.objectives.baselines import FILE_OPTIONS, Unigram, code_map, lossless_file
from isopix.train.evaluator import TRAINING_IMAGES, code_batches

MAX_LOGITS = 2**26  # computed at a time

PerImage = Float[Tensor, " B"]
CodeValues = Float[Tensor, "B N Q"]
Frequencies = Float[Tensor, "C K"]


class ScoreConfig(NamedTuple):
    """How a model is applied: a masked one under `num_masks` masks drawn by `seed`."""

    num_masks: int = 8
    seed: int = 0
    precision: Precision = "fp32"


class CodeNats(NamedTuple):
    """The codes of images, and of each the sum of -ln p over the masks that predict it, and their number."""

    codes: Codes
    nats: CodeValues
    times: CodeValues

    @property
    def per_image(self) -> PerImage:
        return self.nats.sum((1, 2)) / self.times.sum((1, 2)).clamp(min=1)


def require_scores(model: PretrainModel) -> None:
    """Raise ValueError for a model without a likelihood and without a masked loss."""
    model.network.head.require_codes()
    objective = model.objective
    if not (objective.can_sample or objective.masks_input):
        raise ValueError(
            f"this model (objective: {objective.label()}) has no likelihood and no masked loss of images; "
            "autoregressive and masked models have one; isopix neighbors compares images by features"
        )


def bits_per_dim(codec: Codec, codes: Codes, nats: CodeValues, values: Tensor) -> PerImage:
    """Return -log2 p(x) of 24-bit images per pixel and channel; each code stands for `values` values."""
    dims = 3 * codec.grid.positions * codec.patch_size**2
    uniform = values.double().log()[codes].sum((1, 2))
    return (nats.double().sum((1, 2)) + uniform) / (math.log(2) * dims)


@torch.no_grad()
def code_nats(model: PretrainModel, images: Images, config: ScoreConfig) -> CodeNats:
    """Return -ln p of every code of a batch, of a masked model summed over masks, which all images share."""
    nats = times = torch.zeros(())
    codes = model.network.codec.encode(images)
    for number in range(1 if model.objective.can_sample else config.num_masks):
        with autocast(model.network.device, config.precision):
            batch = _batch(model, images, config.seed, number)
            found = _nats_in_loss(model, batch)
        nats, times = nats + found, times + batch.loss_mask.expand_as(found).cpu().double()
    return CodeNats(codes.cpu(), nats, times)


def surprise_maps(codec: Codec, found: CodeNats) -> Float[Tensor, "B R S"]:
    """Return nats per pixel or part of a patch, summed over channels; NaN where nothing was predicted."""
    predicted = code_map(found.times, codec).sum(1) > 0
    means = code_map(found.nats / found.times.clamp(min=1), codec).sum(1)
    pixels = (codec.patch_size // codec.points_per_side) ** 2
    return torch.where(predicted, means / pixels, math.nan)


def _batch(model: PretrainModel, images: Images, seed: int, number: int) -> TrainingBatch:
    if model.objective.can_sample:
        return model.make_batch(images, generator(seed, "score"))
    own = [
        model.make_reconstruction_batch(image, generator(seed, "score.mask", number))
        for image in torch.split(images, 1)
    ]
    columns: list[Any] = [None if each[0] is None else torch.cat(each) for each in zip(*own, strict=True)]
    return TrainingBatch(*columns)


def _nats_in_loss(model: PretrainModel, batch: TrainingBatch) -> CodeValues:
    network, loss_mask = model.network, batch.loss_mask.expand_as(batch.targets)
    tokens = network.backbone(batch.inputs, batch.mask)
    image, position = batch.loss_mask.any(-1).nonzero(as_tuple=True)
    losses = network.head.nll(tokens[None, image, position], batch.targets[None, image, position])[0]
    nats = torch.zeros(batch.targets.shape, dtype=torch.float64)
    image, position = image.cpu(), position.cpu()
    nats[image, position] = losses.cpu().double()
    return nats * loss_mask.cpu()


def file_bits_per_dim(images: Images) -> dict[str, PerImage]:
    """Return bits per pixel and channel of each image as a file, headers included, by FILE_OPTIONS."""
    pixels = rearrange(images.cpu(), "b c h w -> b h w c").numpy()
    sizes = {
        name: [8 * len(lossless_file(Image.fromarray(each), name)) for each in pixels]
        for name in FILE_OPTIONS
        if name != "WEBP" or features.check("webp")
    }
    return {name: torch.tensor(bits, dtype=torch.float64) / pixels[0].size for name, bits in sizes.items()}


def code_frequencies(model: PretrainModel, head: HeadSpec, train: Split, seed: int) -> Frequencies:
    """Return code frequencies in training images by channel, of a head with probabilities."""
    unigram = Unigram(model.network.codec, head)
    for batch in code_batches(model, train.sample(TRAINING_IMAGES), seed):
        unigram.fit(batch)
    return unigram.frequencies


def frequency_nats(codec: Codec, frequencies: Frequencies, codes: Codes) -> CodeValues:
    """Return -ln p of each code if all were independent; the channels of a point are adjacent."""
    channels = torch.arange(codec.num_codes) % len(frequencies)
    return -frequencies[channels, codes].log()


RESAMPLES_AT_A_TIME = 50  # for memory: of 100,000 images 40 MB

ManyGroups = Int[Tensor, " _"] | None
Values = Float[np.ndarray, " _"]
Scores = dict[str, PerImage]  # by the names of SCORES


def score_images(
    model: PretrainModel,
    images: ImageSequence,
    config: ScoreConfig,
    *,
    frequencies: Frequencies | None = None,
    files: bool = True,
) -> Scores:
    """Return the scores of each image, as lossless `files` too; higher is less likely, or harder to compress.

    An autoregressive model has `nats_per_code` and, where the codec says how many 24-bit images have the same
    codes, bits per dimension and their difference to PNG; a masked one `masked_loss`, which is no likelihood.
    """
    require_scores(model)
    codec, probable = model.network.codec, model.objective.can_sample
    values = codec.values_per_code() if probable else None
    most = MAX_LOGITS // (codec.grid.positions * codec.num_codes * codec.vocab_size)
    size = max(1, min(eval_batch_size(codec.grid.positions, model.network.device), most))
    parts, done = defaultdict[str, list[PerImage]](list), 0

    def add(name: str, codes: Codes, nats: CodeValues, per_image: PerImage) -> None:
        parts[f"{name}nats_per_code" if probable or name else "masked_loss"].append(per_image)
        if values is not None:
            parts[f"{name}bits_per_dim"].append(bits_per_dim(codec, codes, nats, values))

    with track("scoring images", len(images)) as count:
        for batch in image_batches(images, size):
            found = code_nats(model, batch.to(model.network.device), config)
            add("", found.codes, found.nats, found.per_image)
            if frequencies is not None:
                nats = frequency_nats(codec, frequencies, found.codes)
                add("unigram_", found.codes, nats, nats.mean((1, 2)))
            for kind, bits in file_bits_per_dim(batch).items() if files else ():
                parts[f"{kind.lower()}_bits_per_dim"].append(bits)
            done += len(batch)
            count(done)
    scores = {each: torch.cat(part) for each, part in parts.items()}
    if files and "bits_per_dim" in scores:
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
