"""Likelihood of images: nats per code, bits per dimension of the 24-bit image, surprise maps, and baselines.

A code of a palette stands for all colors of its cell. With a uniform distribution over these, the model of
codes is one of 24-bit images x: -log2 p(x) = sum over codes of -log2 p(code) + log2(colors of the cell), the
length in bits of a lossless file of x by arithmetic coding.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from PIL import Image, features
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.device import Precision, autocast
from isopix.core.memory import eval_batch_size
from isopix.core.random import generator
from isopix.core.types import Codes, Images, ImageSequence
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


def has_likelihood(model: PretrainModel, head: HeadSpec) -> bool:
    """Return whether the model gives a probability of all codes of an image."""
    return model.objective.can_sample and head.categorical


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


def score_batches(model: PretrainModel, images: ImageSequence) -> Iterator[Images]:
    """Yield images on the model's device, as many as give at most MAX_LOGITS logits."""
    codec, device = model.network.codec, model.network.device
    most = MAX_LOGITS // (codec.grid.positions * codec.num_codes * codec.vocab_size)
    size = max(1, min(eval_batch_size(model.network.codec.grid.positions, model.network.device), most))
    for start in range(0, len(images), size):
        yield images[start : start + size].to(device)


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


def code_frequencies(model: PretrainModel, head: HeadSpec, train: Split, seed: int) -> Frequencies | None:
    """Return code frequencies in training images by channel; None without images or probabilities."""
    if not len(train) or not head.categorical:
        return None
    unigram = Unigram(model.network.codec, head)
    for batch in code_batches(model, train.sample(TRAINING_IMAGES), seed):
        unigram.fit(batch)
    return unigram.frequencies


def frequency_nats(codec: Codec, frequencies: Frequencies, codes: Codes) -> CodeValues:
    """Return -ln p of each code if all were independent; the channels of a point are adjacent."""
    channels = torch.arange(codec.num_codes) % len(frequencies)
    return -frequencies[channels, codes].log()
