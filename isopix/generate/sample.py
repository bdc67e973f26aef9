"""Autoregressive sampling: the positions of an image are sampled in raster order.

Random numbers depend on the seed and the image's number, not on the others, but for rounding.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from logging import getLogger
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Float64, UInt8
from torch import Tensor

from isopix.core.device import (
    Precision,
    autocast,
    compiles_by_default,
    eval_batch_size,
    free_memory,
    native_precision,
    report_memory,
)
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.types import Codes, Grid, Images, Mask, Tokens
from isopix.generate.results import SamplingConfig
from isopix.model.blocks.transformer import Block
from isopix.model.caches import AttentionCache, KVCache
from isopix.model.embedding_conv import ConvCache
from isopix.model.network import Network, evaluation_mode, with_rounded_matrices
from isopix.model.stems.pixels import Inputs
from isopix.objectives.base import ObjectiveSpec, PretrainModel

logger = getLogger("isopix")

LOWEST_TEMPERATURE = 1e-30  # greedy; below, quotients of float32 logits would overflow
RECOMPILE_LIMIT = 64  # each model, precision and batch size is compiled about three times
CACHE_FRACTION = 0.5  # of the free memory, for the caches of all images, or the logits
LOGIT_BYTES = 32  # of each: logits, their logarithms, probabilities, and their sums in float64
TOKEN_COPIES = 32  # of width float32 numbers, which a block holds of each token
GenerationVerb = Literal["sample", "complete", "reconstruct"]
NextLogits = Float[Tensor, "B Q K"]
NextCodes = Codes  # [B 1 Q]
NextNumbers = Float64[Tensor, "B Q"]  # uniform, from 0 to 1
UniformNumbers = Float64[Tensor, "_ N Q"]  # one for each code of each sample
SampledImages = UInt8[Tensor, "_ 3 H W"]  # as many as requested
Stream = tuple[int, str, int]  # seed, purpose and number of the image: of `core.random.generator`


def generation_verbs(objective: ObjectiveSpec, *, logits: bool = True) -> list[str]:
    """Return what a network of an objective can be asked for, by whether its head has logits."""
    fits = {
        "sample": objective.can_sample,
        "complete": logits and (objective.can_sample or objective.masks_input),
        "reconstruct": objective.masks_input,
    }
    return [verb for verb, fit in fits.items() if fit]


def require(model: PretrainModel, verb: GenerationVerb) -> None:
    """Raise ValueError, which says what the network can be asked for, if it cannot be asked for this."""
    head, objective = model.network.head, model.objective
    head.require_codes()
    if verb not in generation_verbs(objective):
        possible = [*generation_verbs(objective, logits=not head.no_logits), "probe"]
        others = ", ".join(f"isopix {name}" for name in possible)
        raise ValueError(f"this model (objective: {objective.label()}) cannot {verb} images; try {others}")
    if head.no_logits and verb != "reconstruct":
        raise ValueError(head.no_logits)


def probabilities(logits: NextLogits, sampling: SamplingConfig) -> NextLogits:
    """Return probabilities after temperature, top-k and top-p; codes tied at a cutoff are kept."""
    logits = logits.float() / max(sampling.temperature, LOWEST_TEMPERATURE)
    if sampling.top_k is not None and sampling.top_k < logits.shape[-1]:
        cutoff = logits.topk(sampling.top_k).values[..., -1:]
        logits = logits.masked_fill(logits < cutoff, -torch.inf)
    found = logits.softmax(-1)
    if sampling.top_p is not None and sampling.top_p < 1:
        ranked = found.sort(descending=True).values
        kept = ranked.cumsum(-1) - ranked < sampling.top_p
        cutoff = ranked.masked_fill(~kept, torch.inf).amin(-1, keepdim=True)
        found = found.masked_fill(found < cutoff, 0)
    return found / found.sum(-1, keepdim=True)


def sample_codes(logits: NextLogits, uniform: NextNumbers, sampling: SamplingConfig) -> NextCodes:
    """Return the codes at which the cumulative probabilities, in float64, exceed `uniform`."""
    cumulative = probabilities(logits, sampling).to(uniform.device).double().cumsum(-1)
    codes = (cumulative / cumulative[..., -1:] <= uniform[..., None]).sum(-1)
    return codes[:, None].to(logits.device)


def on_device(uniform: Tensor, device: torch.device) -> Tensor:
    """Move float64 numbers to a device, unless it has none."""
    return uniform if device.type == "mps" else uniform.to(device)


@contextmanager
def sampling_mode(model: PretrainModel, sampling: SamplingConfig) -> Iterator[None]:
    """Compute in evaluation mode, products in the precision of `sampling` (on CPUs `_rounds_matrices`)."""
    device = model.network.device
    on_gpu = sampling.precision == "bf16" and device.type == "cuda"
    with evaluation_mode(model), torch.no_grad(), autocast(device, "bf16" if on_gpu else "fp32"):
        yield


def _rounds_matrices(device: torch.device, sampling: SamplingConfig) -> bool:
    """Whether to round matrices to bf16 once: a CPU would cast them longer than it multiplies."""
    return sampling.precision == "bf16" and device.type == "cpu" and native_precision(device) == "bf16"


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
    """Sample positions `start`, `start` + 1, ... of every prompt image, `samples_per_prompt` times, adjacent.

    Positions before `start` are computed once and cached for all samples. `uniform` decides each code. Codes
    outside `hidden`, of each prompt image, are those of the prompt. Precision is the caller's autocast.
    """
    network = model.network
    if _rounds_matrices(network.device, sampling):
        network = with_rounded_matrices(network)
    backbone = network.backbone
    _note_full_passes(*{type(block) for block in backbone.blocks})
    caches = backbone.new_caches(sampling.precision)
    uniform = on_device(uniform, network.device)
    known = network.codec.encode(prompt)
    given = network.inputs_of_codes(known)
    tokens = backbone.decode_step(backbone.embed_each(given)[:, : start + 1], caches)[:, -1:]
    tokens = tokens.repeat_interleave(samples_per_prompt, 0)
    if samples_per_prompt > 1:
        for cache in caches:
            cache.repeat_batch(samples_per_prompt)
    known = known.repeat_interleave(samples_per_prompt, 0)
    if hidden is not None:
        hidden = hidden.repeat_interleave(samples_per_prompt, 0)
    decode_next = _compiled_decode_next() if _compiles(sampling, network.device, caches) else _decode_next
    step = _draw(network, tokens, start, sampling, uniform[:, start])
    for position in range(start, backbone.grid.positions):
        if position > start:
            step = decode_next(network, step.codes, position, caches, sampling, uniform[:, position])
        if hidden is not None:
            here = slice(position, position + 1)
            step = step._replace(codes=torch.where(hidden[:, here], step.codes, known[:, here]))
        yield step


@cache
def _note_full_passes(*blocks: type[Block]) -> None:
    for block in blocks:
        if block.forward_cached is Block.forward_cached:
            text = "%s has no forward_cached: sampling is slow, as it computes all positions for each one"
            logger.info(text, block.__name__)


def _decode_next(
    network: Network,
    codes: NextCodes,
    position: int,
    caches: Sequence[KVCache],
    sampling: SamplingConfig,
    uniform: NextNumbers,
) -> DecodeStep:
    inputs = network.inputs_of_codes(codes, Grid(1, 1))
    tokens = network.backbone.decode_step(network.backbone.embed_next(inputs, position), caches)
    return _draw(network, tokens, position, sampling, uniform)


def _compiles(sampling: SamplingConfig, device: torch.device, caches: Sequence[KVCache]) -> bool:
    possible = all(isinstance(cache, AttentionCache | ConvCache) for cache in caches)
    if sampling.compile and not possible:
        raise ValueError("only attention can be compiled; compiled mixers gave wrong samples")
    return possible and (compiles_by_default(device) if sampling.compile is None else sampling.compile)


@cache
def _compiled_decode_next() -> Callable[..., DecodeStep]:
    logger.info("compiling the step that samples a position: 10 to 30 s, a few if it is cached")
    torch._dynamo.config.recompile_limit = max(RECOMPILE_LIMIT, torch._dynamo.config.recompile_limit)
    return torch.compile(_decode_next)


def _draw(
    network: Network, tokens: Tokens, position: int, sampling: SamplingConfig, uniform: NextNumbers
) -> DecodeStep:
    logits = network.head.logits(tokens)[:, 0]
    return DecodeStep(position, sample_codes(logits, uniform, sampling), logits)


def sample_images(
    model: PretrainModel,
    count: int,
    *,
    sampling: SamplingConfig,
    seed: int = 0,
    batch_size: int | None = None,
) -> SampledImages:
    """Sample `count` images unconditionally, on the CPU; image i is a function of `seed` and i.

    `batch_size` images are sampled at a time, by default as many as the free memory allows.
    """
    require(model, "sample")
    network, codec = model.network, model.network.codec
    shape = (3, *codec.image_size)
    fewer = f"{count:,} images; sample fewer"
    with report_memory(fewer, count, 2 * math.prod(shape)), sampling_mode(model, sampling):
        images, done = torch.empty(count, *shape, dtype=torch.uint8), 0
        batches = range_batches(count, batch_size or images_at_once(network, sampling.precision))
        with track("sampling", len(batches) * codec.grid.positions) as count_done:
            for batch in batches:
                blank = torch.zeros(len(batch), *shape, dtype=torch.uint8, device=network.device)
                uniform = uniform_numbers(network, ((seed, "sample", image) for image in batch))
                codes = []
                for step in decode_steps(model, blank, start=0, sampling=sampling, uniform=uniform):
                    codes.append(step.codes)
                    count_done(done + step.position + 1)
                images[batch.start : batch.stop] = codec.decode(torch.cat(codes, 1))
                done += codec.grid.positions
    return images


def uniform_numbers(network: Network, streams: Iterable[Stream]) -> UniformNumbers:
    """Return a random number for each code of each stream, in float64."""
    return random_numbers((network.codec.grid.positions, network.codec.num_codes), streams)


def random_numbers(shape: Sequence[int], streams: Iterable[Stream]) -> Tensor:
    """Return uniform random numbers on the CPU, those of each stream from a generator of its own."""
    drawn = [torch.rand(shape, dtype=torch.float64, generator=generator(*stream)) for stream in streams]
    return torch.stack(drawn)


def range_batches(count: int, size: int) -> list[range]:
    """Split range(count) into ranges of at most `size` numbers."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def images_at_once(network: Network, precision: Precision | None) -> int:
    """Return how many images to sample at a time, at least one."""
    return max(1, int(CACHE_FRACTION * free_memory(network.device)) // cache_bytes(network, precision))


@torch.inference_mode()
def images_per_forward(network: Network) -> int:
    """Return of how many images to predict all codes at a time, at least one; no more than are fast."""
    codec, width = network.codec, network.backbone.embed(_blank(network)).shape[-1]
    logits, tokens = LOGIT_BYTES * codec.num_codes * codec.vocab_size, 4 * TOKEN_COPIES * width
    bytes_each = codec.grid.positions * (logits + tokens)
    fit = int(CACHE_FRACTION * free_memory(network.device)) // bytes_each
    return max(1, min(fit, eval_batch_size(codec.grid.positions, network.device)))


@torch.inference_mode()
def cache_bytes(network: Network, precision: Precision | None) -> int:
    """Return the bytes that the caches of all blocks hold for an image."""
    caches = network.backbone.new_caches(precision)
    tokens = network.backbone.embed_each(_blank(network))
    network.backbone.decode_step(tokens[:, :1], caches)
    return sum(cache.num_bytes for cache in caches)


def _blank(network: Network) -> Inputs:
    image = torch.zeros(1, 3, *network.codec.image_size, dtype=torch.uint8, device=network.device)
    return network.inputs_of_codes(network.codec.encode(image))
