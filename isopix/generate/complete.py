"""Completion: hidden parts of images are filled in several times, from what is visible."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Bool, Float64, UInt8
from torch import Tensor

from isopix.core.progress import track
from isopix.core.text import short_repr
from isopix.core.types import Images, Mask
from isopix.generate.config import DEFAULT_PASSES, Passes, SamplingConfig
from isopix.generate.filling import Filled, Stream, fill_in_passes, fill_raster
from isopix.generate.mask import PixelMask, hidden_pixels
from isopix.generate.memory import images_at_once, images_per_forward
from isopix.generate.sample import range_batches, require, sampling_autocast
from isopix.objectives.base import PretrainModel

CompletedImages = UInt8[Tensor, "B each 3 H W"]
LogLikelihood = Float64[Tensor, "B each"]
LikelihoodKind = Literal["raster", "path"]
GRAY = 128  # of pixels that are not filled in yet


class Prompt(NamedTuple):
    """Images, what is `hidden` of them, True where it is, and how often to complete each."""

    images: Images
    hidden: Mask
    samples_per_image: int = 1


class Completions(NamedTuple):
    """Completions of each image, uint8 [B each 3 H W]; `mask` [B H W] is True where they were filled in.

    Elsewhere they are the images as the network reads them: in the colors of its palette, if it has one.
    `log_likelihood` [B each] is the sum over the filled-in codes of ln p(code) in nats, by the model at
    temperature 1, whatever they were sampled with. `likelihood` says given what:

    - `raster`: given all codes before it in raster order, known or sampled (autoregressive models);
    - `path`: given the known codes and those of earlier passes (masked models). It is the log-probability of
      the path that was taken, conditional on its order, and not that of the completion over all orders.
    """

    images: CompletedImages
    log_likelihood: LogLikelihood
    mask: PixelMask
    likelihood: LikelihoodKind

    def __repr__(self) -> str:
        return short_repr(self)


class PartialCompletions(NamedTuple):
    """Completions under way, after `done` of `total` steps: uint8 `images` [B each 3 H W], gray where they
    are not filled in yet, which `remaining` [B each H W] says, and their log-likelihood so far.
    """

    done: int
    total: int
    images: CompletedImages
    remaining: Bool[Tensor, "B each H W"]
    log_likelihood: LogLikelihood


def likelihood_kind(model: PretrainModel) -> LikelihoodKind:
    """Return what the log-likelihood of a completion is given."""
    return "raster" if model.objective.can_sample else "path"


def complete_images(
    model: PretrainModel,
    prompt: Prompt,
    *,
    sampling: SamplingConfig,
    passes: Passes = DEFAULT_PASSES,
    seed: int = 0,
    batch_size: int | None = None,
) -> Completions:
    """Complete every image several times; results are on the CPU.

    Autoregressive models sample the hidden codes in raster order, given the codes before them only; masked
    models in `passes`, given all that is visible. Completion j of image i is a function of `seed`, i and j.
    `batch_size` completions are computed at a time, by default as many as the free memory allows. Raises
    ValueError if the network can do neither, and for passes of an autoregressive model.
    """
    images, log_likelihood, each = [], [], prompt.samples_per_image
    size = batch_size or _batch_size(model, sampling)
    batches = [
        (batch, samples)
        for batch in range_batches(len(prompt.images), max(1, size // each))
        for samples in range_batches(each, size)
    ]
    with track("completing images, percent", 100) as count, sampling_autocast(model.network.device, sampling):
        for number, (batch, samples) in enumerate(batches):
            for step in _steps(model, prompt, batch, samples, sampling=sampling, passes=passes, seed=seed):
                count(round(100 * (number + step.done / step.total) / len(batches)))
            images.append(_pictures(model, prompt, batch, step).cpu())
            log_likelihood.append(_log_likelihood(step))
    return Completions(
        _by_image(torch.cat(images), each),
        _by_image(torch.cat(log_likelihood), each),
        hidden_pixels(prompt.hidden, prompt.images),
        likelihood_kind(model),
    )


def completion_steps(
    model: PretrainModel,
    prompt: Prompt,
    *,
    sampling: SamplingConfig,
    passes: Passes = DEFAULT_PASSES,
    seed: int = 0,
    context: Callable[[], AbstractContextManager[object]],
) -> Iterator[PartialCompletions]:
    """Yield the completions of `complete_images` as they are made, all at a time: after each row of an
    autoregressive model, and each pass of a masked one. Each step is computed in a `context` of its own.
    """
    each = prompt.samples_per_image
    every, samples = range(len(prompt.images)), range(each)
    steps = _steps(model, prompt, every, samples, sampling=sampling, passes=passes, seed=seed)

    def pictures() -> PartialCompletions | None:
        step = next(steps, None)
        if step is None:
            return None
        images = _pictures(model, prompt, every, step)
        remaining = hidden_pixels(step.remaining, images)
        images = images.masked_fill(remaining[:, None], GRAY)
        parts = (images.cpu(), remaining.cpu(), _log_likelihood(step))
        shown, missing, log_likelihood = (_by_image(part, each) for part in parts)
        return PartialCompletions(step.done, step.total, shown, missing, log_likelihood)

    while True:
        with context(), sampling_autocast(model.network.device, sampling):
            found = pictures()
        if found is None:
            return
        yield found


def _steps(
    model: PretrainModel,
    prompt: Prompt,
    batch: range,
    samples: range,
    *,
    sampling: SamplingConfig,
    passes: Passes,
    seed: int,
) -> Iterator[Filled]:
    require(model, "complete")
    device = model.network.device
    images, hidden = (each[batch.start : batch.stop].to(device) for each in (prompt.images, prompt.hidden))
    streams: list[Stream] = [(seed, f"complete/{sample}", image) for image in batch for sample in samples]
    if not model.objective.can_sample:
        if sampling.compile:
            raise ValueError("only autoregressive models are compiled for sampling; this one is masked")
        return fill_in_passes(model, images, hidden, streams=streams, sampling=sampling, passes=passes)
    if passes != DEFAULT_PASSES:
        raise ValueError(
            "only masked models have an order and iterations; an autoregressive model samples in raster order"
        )
    return fill_raster(model, images, hidden, streams=streams, sampling=sampling)


def _pictures(model: PretrainModel, prompt: Prompt, batch: range, step: Filled) -> Images:
    """The images of a step: the decoded codes, and where nothing was hidden, what the network reads."""
    network = model.network
    decoded = network.codec.decode(step.codes)
    if model.objective.can_sample:
        return decoded  # it reads decoded codes everywhere
    each = len(decoded) // len(batch)
    images, hidden = (
        part[batch.start : batch.stop].to(network.device).repeat_interleave(each, 0)
        for part in (prompt.images, prompt.hidden)
    )
    return torch.where(hidden_pixels(hidden, images)[:, None], decoded, network.visible_pixels(images))


def _by_image(values: Tensor, each: int) -> Tensor:
    """Values of all completions, those of an image apart from those of others."""
    return rearrange(values, "(b each) ... -> b each ...", each=each)


def _log_likelihood(step: Filled) -> Float64[Tensor, " _"]:
    return step.log_probs.detach().cpu().double().flatten(1).sum(1)


def _batch_size(model: PretrainModel, sampling: SamplingConfig) -> int:
    if model.objective.can_sample:
        return images_at_once(model.network, sampling.precision)
    return images_per_forward(model.network)
