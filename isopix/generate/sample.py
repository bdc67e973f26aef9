"""Autoregressive sampling: the positions of an image are sampled in raster order.

The random numbers of an image are a function of the seed and of the number of the image, so that its sample
does not depend on the images beside it, but for rounding: products of matrices of another size can differ in
their last bits.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from logging import getLogger
from typing import NamedTuple

import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from isopix.core.device import check_compiler
from isopix.core.progress import Count, track
from isopix.core.random import generator
from isopix.core.types import Codes, Grid, Images, Mask, Tokens
from isopix.generate.memory import images_at_once
from isopix.generate.sampling_config import NextCodes, NextLogits, SamplingConfig
from isopix.model.kv_cache import AttentionCache, KVCache
from isopix.model.network import Network
from isopix.model.rounded_matrices import with_rounded_matrices
from isopix.objectives.base import PretrainModel

logger = getLogger("isopix")

RECOMPILE_LIMIT = 64  # each model, precision and batch size is compiled about three times
UniformNumbers = Float64[Tensor, "_ N Q"]  # from 0 to 1, one for each code of each sample
SampledImages = UInt8[Tensor, "_ 3 H W"]  # as many as requested


class DecodeStep(NamedTuple):
    """One position: its codes [B 1 Q], sampled or known, and the logits [B Q K] of them."""

    position: int
    codes: NextCodes
    logits: NextLogits


@torch.inference_mode()
def decode_steps(
    model: PretrainModel,
    prompt: Images,
    *,
    start: int,
    samples_per_prompt: int = 1,
    sampling: SamplingConfig,
    uniform: UniformNumbers,
    hidden: Mask | None = None,
) -> Iterator[DecodeStep]:
    """Sample positions `start`, `start` + 1, ... of every prompt image, `samples_per_prompt` times.

    The positions before `start`, quantized by the codec, are computed once and cached for all samples of a
    prompt, which are adjacent in the batch. Products are in the precision of the caller's autocast. `uniform`
    decides each code of each sample. With `hidden`, of each prompt image, codes that are not hidden keep
    those of the prompt. Raises ValueError if the network cannot sample.
    """
    require_sampling(model)
    network = model.network
    if sampling.rounds_matrices_on(network.device):
        network = with_rounded_matrices(network)
    backbone = network.backbone
    caches = backbone.new_caches(sampling.precision)
    if network.device.type != "mps":  # which has no float64
        uniform = uniform.to(network.device)
    known = network.codec.encode(prompt)
    given = network.inputs_of_codes(known)
    tokens = backbone.decode_step(backbone.embed(given)[:, : start + 1], caches)[:, -1:]
    tokens = tokens.repeat_interleave(samples_per_prompt, 0)
    if samples_per_prompt > 1:
        for cache in caches:
            cache.repeat_batch(samples_per_prompt)
    known = known.repeat_interleave(samples_per_prompt, 0)
    if hidden is not None:
        hidden = hidden.repeat_interleave(samples_per_prompt, 0)
    step = _keep_known(_draw(network, tokens, start, sampling, uniform[:, start]), known, hidden)
    yield step
    decode_next = _compiled_decode_next() if _compiles(sampling, network.device, caches) else _decode_next
    for position in range(start + 1, backbone.grid.positions):
        drawn = decode_next(network, step.codes, position, caches, sampling, uniform[:, position])
        step = _keep_known(drawn, known, hidden)
        yield step


def _keep_known(step: DecodeStep, known: Codes, hidden: Mask | None) -> DecodeStep:
    """Replace the sampled codes that are not hidden by the known ones."""
    if hidden is None:
        return step
    here = slice(step.position, step.position + 1)
    return step._replace(codes=torch.where(hidden[:, here], step.codes, known[:, here]))


def _decode_next(
    network: Network,
    codes: NextCodes,
    position: int,
    caches: Sequence[KVCache],
    sampling: SamplingConfig,
    uniform: Float64[Tensor, "B Q"],
) -> DecodeStep:
    """Sample a position, given the codes of the one before it and the caches of all earlier ones."""
    inputs = network.inputs_of_codes(codes, Grid(1, 1))
    tokens = network.backbone.decode_step(network.backbone.embed_next(inputs, position), caches)
    return _draw(network, tokens, position, sampling, uniform)


def _compiles(sampling: SamplingConfig, device: torch.device, caches: Sequence[KVCache]) -> bool:
    """Whether the step is compiled. Raises ValueError if it should be and cannot."""
    possible = all(isinstance(cache, AttentionCache) for cache in caches)
    if sampling.compile:
        check_compiler()
        if not possible:
            raise ValueError("only attention can be compiled; compiled mixers gave wrong samples")
    return sampling.compiles_on(device) and possible


@cache
def _compiled_decode_next() -> Callable[..., DecodeStep]:
    logger.info("compiling the step that samples a position: 10 to 30 s, a few if it is cached")
    torch._dynamo.config.recompile_limit = max(RECOMPILE_LIMIT, torch._dynamo.config.recompile_limit)
    return torch.compile(_decode_next)


def _draw(
    network: Network, tokens: Tokens, position: int, sampling: SamplingConfig, uniform: Float64[Tensor, "B Q"]
) -> DecodeStep:
    logits = network.head.logits(tokens)[:, 0]
    return DecodeStep(position, sampling.sample_codes(logits, uniform), logits)


def fill_in(
    model: PretrainModel,
    prompt: Images,
    *,
    start: int = 0,
    sampling: SamplingConfig,
    uniform: UniformNumbers,
    count: Count = lambda done: None,
) -> SampledImages:
    """Keep the first `start` positions of each prompt image, in raster order, and sample the others.

    `count` is called with each sampled position. Raises ValueError if the network cannot sample.
    """
    codec = model.network.codec
    codes = codec.encode(prompt)
    steps = decode_steps(model, prompt, start=start, sampling=sampling, uniform=uniform)
    with sampling.autocast(model.network.device):
        for step in steps:
            codes[:, step.position] = step.codes[:, 0]
            count(step.position)
    return codec.decode(codes)


def sample_images(
    model: PretrainModel,
    count: int,
    *,
    sampling: SamplingConfig,
    seed: int = 0,
    batch_size: int | None = None,
) -> SampledImages:
    """Sample `count` images unconditionally, on the CPU; image i is a function of `seed` and i.

    `batch_size` images are sampled at a time, by default as many as the free memory allows. Raises ValueError
    if the network cannot sample.
    """
    require_sampling(model)
    network = model.network
    grid, cell = network.codec.grid, network.codec.patch_size
    shape = (3, grid.rows * cell, grid.cols * cell)
    images = torch.empty(count, *shape, dtype=torch.uint8)
    batches = range_batches(count, batch_size or images_at_once(network, sampling.precision))
    with track("sampling", len(batches) * grid.positions) as count_all:
        for number, batch in enumerate(batches):
            blank = torch.zeros(len(batch), *shape, dtype=torch.uint8, device=network.device)
            images[batch.start : batch.stop] = fill_in(
                model,
                blank,
                sampling=sampling,
                uniform=uniform_numbers(network, ((seed, "sample", image) for image in batch)),
                count=lambda done, before=number * grid.positions: count_all(before + done),
            )
    return images


def uniform_numbers(network: Network, streams: Iterable[tuple[int, str, int]]) -> UniformNumbers:
    """Return the random numbers of each stream: the arguments of `core.random.generator`."""
    shape = (network.codec.grid.positions, network.codec.num_codes)
    return torch.stack(
        [torch.rand(shape, dtype=torch.float64, generator=generator(*stream)) for stream in streams]
    )


def range_batches(count: int, size: int) -> list[range]:
    """Split range(count) into ranges of at most `size` numbers."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def require_sampling(model: PretrainModel) -> None:
    """Raise ValueError unless the network predicts every code from the codes before it."""
    head = model.network.head
    head.require_codes()
    if not model.objective.can_sample:
        abilities = ""
        if model.objective.masks_input:
            with suppress(ValueError):
                head.require_logits()
                abilities = "complete images (isopix complete), "
            abilities += "reconstruct masked pixels (isopix reconstruct) and "
        raise ValueError(
            f"this model (objective: {model.objective.label()}) cannot sample images; it can "
            f"{abilities}be probed (isopix probe)"
        )
    head.require_logits()
