"""Scores of single images by a model and by lossless files.

A code of a palette stands for all colors of its cell. With a uniform distribution over these, the model of
codes is one of 24-bit images x: -log2 p(x) = sum over codes of -log2 p(code) + log2(colors of the cell), the
length in bits of a lossless file of x by arithmetic coding.
"""

import math
from collections import defaultdict
from typing import Any, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from isopix.analysis.results import ScoreSummary
from isopix.codecs.base import Codec
from isopix.core.device import Precision, autocast, eval_batch_size
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.stats import mean_standard_error
from isopix.core.types import Codes, Groups, Images, ImageSequence, image_batches
from isopix.objectives.base import PretrainModel, TrainingBatch
from isopix.objectives.baselines import code_map, lossless_file

MAX_LOGITS = 2**26  # computed at a time

PerImage = Float[Tensor, " B"]
CodeValues = Float[Tensor, "B N Q"]


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


def png_bits_per_dim(images: Images) -> PerImage:
    """Return bits per pixel and channel of each image as a PNG file, headers included."""
    pixels = rearrange(images.cpu(), "b c h w -> b h w c").numpy()
    bits = [8 * len(lossless_file(Image.fromarray(each), "PNG")) for each in pixels]
    return torch.tensor(bits, dtype=torch.float64) / pixels[0].size


Scores = dict[str, PerImage]  # by the names of SCORES


def score_images(
    model: PretrainModel, images: ImageSequence, config: ScoreConfig, *, files: bool = True
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
    with track("scoring images", len(images)) as count:
        for batch in image_batches(images, size):
            found = code_nats(model, batch.to(model.network.device), config)
            parts["nats_per_code" if probable else "masked_loss"].append(found.per_image)
            if values is not None:
                parts["bits_per_dim"].append(bits_per_dim(codec, found.codes, found.nats, values))
            if files:
                parts["png_bits_per_dim"].append(png_bits_per_dim(batch))
            done += len(batch)
            count(done)
    scores = {each: torch.cat(part) for each, part in parts.items()}
    if files and values is not None:
        scores["bits_minus_png"] = scores["bits_per_dim"] - scores["png_bits_per_dim"]
    return scores


def summarize(values: PerImage, groups: Groups | None = None) -> ScoreSummary:
    """Return the summary of a score; the standard error is that of independent groups."""
    count = len(values)
    error = mean_standard_error(values.numpy(), None if groups is None else groups.numpy())
    deviation = float(values.std()) if count > 1 else None
    return ScoreSummary(count, float(values.mean()), deviation, error and error[0])
