"""Completion: hidden parts filled in several times. Reconstruction: once, by the most likely codes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Bool, Float64, UInt8
from torch import Tensor

from isopix.core.device import report_memory
from isopix.core.progress import track
from isopix.core.types import Images, Mask
from isopix.generate.filling import fill_in_passes, fill_raster
from isopix.generate.mask import PixelMask, hidden_pixels
from isopix.generate.results import DEFAULT_PASSES, DEFAULT_SAMPLING, Passes, SamplingConfig
from isopix.generate.sample import (
    Stream,
    images_at_once,
    images_per_forward,
    range_batches,
    require,
    sampling_mode,
)
from isopix.objectives.base import PretrainModel
from isopix.objectives.visible_baselines import exact_matches

CompletedImages = UInt8[Tensor, "B each 3 H W"]
LogLikelihood = Float64[Tensor, "B each"]
GRAY = 128  # of pixels that are not filled in yet


class Prompt(NamedTuple):
    """Images, what is `hidden` of them, True where it is, and how often and how to complete each.

    Completion j of image i is a function of `seed`, i and j.
    """

    images: Images
    hidden: Mask
    samples_per_image: int = 1
    sampling: SamplingConfig = DEFAULT_SAMPLING
    passes: Passes = DEFAULT_PASSES
    seed: int = 0


class Completions(NamedTuple):
    """Completions of each image, uint8 [B each 3 H W]; `mask` [B H W] is True where they were filled in.

    `log_likelihood` [B each] is the sum over the filled-in codes of ln p(code) in nats, at temperature 1,
    given (`likelihood`) all codes before it in `raster` order, or the known codes and those of earlier
    passes: that of the `path` that was taken, not of the completion over all orders.
    """

    images: CompletedImages
    log_likelihood: LogLikelihood
    mask: PixelMask
    likelihood: Literal["raster", "path"]

    def __repr__(self) -> str:
        return f"Completions(images={list(self.images.shape)}, likelihood='{self.likelihood}')"


class PartialCompletions(NamedTuple):
    """Completions after `done` of `total` steps, gray where `remaining` [B each H W] says."""

    done: int
    total: int
    images: CompletedImages
    remaining: Bool[Tensor, "B each H W"]
    log_likelihood: LogLikelihood


def complete_images(model: PretrainModel, prompt: Prompt, *, batch_size: int | None = None) -> Completions:
    """Complete every image several times; results are on the CPU.

    Autoregressive models sample in raster order, given the codes before only; masked models in `passes`,
    given all that is visible. `batch_size` completions are computed at a time, by default as many as the free
    memory allows.
    """
    found, each, sampling, raster = [], prompt.samples_per_image, prompt.sampling, model.objective.can_sample
    needed = len(prompt.images) * each, 2 * prompt.images[0].numel()
    with report_memory(f"{needed[0]:,} images; sample fewer", *needed), sampling_mode(model, sampling):
        size = batch_size or (
            images_at_once(model.network, sampling.precision) if raster else images_per_forward(model.network)
        )
        parts = [
            (images, samples)
            for images in range_batches(len(prompt.images), max(1, size // each))
            for samples in range_batches(each, size)
        ]
        with track("completing images, percent", 100) as count_done:
            for number, part in enumerate(parts):
                for step in _steps(model, prompt, *part):
                    count_done(round(100 * (number + step.done / step.total) / len(parts)))
                found.append((step.images.flatten(0, 1), step.log_likelihood.flatten()))
    images, log_likelihood = (_by_image(torch.cat(part), each) for part in zip(*found, strict=True))
    mask = hidden_pixels(prompt.hidden, prompt.images)
    return Completions(images, log_likelihood, mask, "raster" if raster else "path")


def completion_steps(model: PretrainModel, prompt: Prompt) -> Iterator[PartialCompletions]:
    """Yield `complete_images` as they are made: after each row, or each pass of a masked model."""
    steps = _steps(model, prompt, range(len(prompt.images)), range(prompt.samples_per_image))
    while True:
        with report_memory("these completions; complete fewer"), sampling_mode(model, prompt.sampling):
            step = next(steps, None)  # between two steps, the caller computes as it likes
        if step is None:
            return
        yield step


def _steps(
    model: PretrainModel, prompt: Prompt, batch: range, samples: range
) -> Iterator[PartialCompletions]:
    """Yield the completions of these numbers of a batch of images, on the CPU."""
    require(model, "complete")
    network, raster = model.network, model.objective.can_sample
    images, hidden = (part[batch.start : batch.stop].to(network.device) for part in prompt[:2])
    sampling, passes = prompt.sampling, prompt.passes
    purposes = [f"complete/{sample}" for sample in samples]
    streams: list[Stream] = [(prompt.seed, purpose, image) for image in batch for purpose in purposes]
    if raster and passes != DEFAULT_PASSES:
        why = "an autoregressive model samples in raster order"
        raise ValueError(f"only masked models have an order and iterations; {why}")
    if sampling.compile and not raster:
        raise ValueError("only autoregressive models are compiled for sampling; this one is masked")
    if raster:
        steps = fill_raster(model, images, hidden, streams=streams, sampling=sampling)
    else:
        steps = fill_in_passes(model, images, hidden, streams=streams, sampling=sampling, passes=passes)
    each, known = len(samples), network.visible_pixels(images)[:, None]
    hidden_here = hidden_pixels(hidden, images)[:, None, None]
    for step in steps:
        decoded = network.codec.decode(step.codes)
        made = _by_image(decoded, each)
        remaining = _by_image(hidden_pixels(step.remaining, decoded), each)
        if not raster:  # an autoregressive model reads decoded codes everywhere
            made = torch.where(hidden_here, made, known)
        made = made.masked_fill(remaining[:, :, None], GRAY)
        log_likelihood = _by_image(step.log_probs.detach().cpu().double().flatten(1).sum(1), each)
        yield PartialCompletions(step.done, step.total, made.cpu(), remaining.cpu(), log_likelihood)


def _by_image(values: Tensor, each: int) -> Tensor:
    return rearrange(values, "(b each) ... -> b each ...", each=each)


class Reconstruction(NamedTuple):
    """The `original` images as the network reads them, the `mask`, by position or by code, and two copies of
    the original whose masked positions hold the `target` codes, or the network's `prediction` of them.
    """

    original: Images
    mask: Mask
    target: Images
    prediction: Images
    accuracy: float
    baselines: Mapping[str, float]

    @property
    def pixel_mask(self) -> PixelMask:
        """True for the pixels of a position of which any code is masked."""
        return hidden_pixels(self.mask, self.original)


@torch.no_grad()
def reconstruct_images(
    model: PretrainModel, images: Images, *, generator: torch.Generator, modes: Sequence[int] = ()
) -> Reconstruction:
    """Mask positions as in training, and predict their most likely codes in one pass (iGPT section 2.1).

    `modes` are the most frequent values of the channels of a code in training images, a baseline.
    """
    require(model, "reconstruct")
    network, codec = model.network, model.network.codec
    batch = model.make_reconstruction_batch(images, generator)
    assert batch.mask is not None, "the objective masks inputs"
    predicted = network.predict(batch.inputs, batch.mask)
    correct = (predicted == batch.targets)[batch.loss_mask.expand_as(predicted)].float().mean()
    original, pixels = network.visible_pixels(images), hidden_pixels(batch.mask, images)[:, None]
    target, prediction = (
        torch.where(pixels, codec.decode(codes), original)
        for codes in (batch.targets, torch.where(batch.mask, predicted, batch.targets))
    )
    return Reconstruction(
        original.cpu(),
        batch.mask.cpu(),
        target.cpu(),
        prediction.cpu(),
        float(correct),
        exact_matches(batch.masked_codes(codec), modes),
    )
