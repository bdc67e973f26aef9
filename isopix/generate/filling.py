"""Filling in hidden codes: in raster order by an autoregressive model, in a few passes by a masked one.

Random numbers depend on the stream of a completion (seed, purpose, image), not on other images.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from isopix.core.types import Codes, Grid, Images, Mask, PositionIndices, SelectedTokens
from isopix.generate.mask import hidden_pixels
from isopix.generate.results import Passes, SamplingConfig
from isopix.generate.sample import (
    Stream,
    decode_steps,
    on_device,
    random_numbers,
    sample_codes,
    uniform_numbers,
)
from isopix.model.backbone import Backbone
from isopix.model.network import Network
from isopix.model.stems.pixels import Inputs
from isopix.objectives.base import PretrainModel

NEARBY = 3  # positions
SelectedLogits = Float[Tensor, "B M Q K"]
SelectedCodes = Int[Tensor, "B M Q"]
SelectedLogProbs = Float[Tensor, "B M Q"]


class Filled(NamedTuple):
    """Images after `done` of `total` steps; `codes` are 0 where they remain to be filled in.

    `log_probs` are ln p of each filled-in code given what the model saw, at temperature 1; 0 elsewhere.
    """

    done: int
    total: int
    codes: Codes
    remaining: Mask
    log_probs: Float[Tensor, "B N Q"]


@torch.inference_mode()
def fill_raster(
    model: PretrainModel, images: Images, hidden: Mask, *, streams: Sequence[Stream], sampling: SamplingConfig
) -> Iterator[Filled]:
    """Sample the hidden codes in raster order, each given the codes before it, and yield after every row.

    `streams` are those of all completions, adjacent for an image. Precision is the caller's autocast.
    """
    network, each = model.network, len(streams) // len(images)
    grid = network.codec.grid
    places = hidden.any(-1).any(0).nonzero()[:, 0]
    first, last = int(places[0]), int(places[-1])
    codes = network.codec.encode(images).masked_fill(hidden, 0).repeat_interleave(each, 0)
    remaining = hidden.repeat_interleave(each, 0)
    log_probs = torch.zeros(codes.shape, device=codes.device)
    steps = decode_steps(
        model,
        images,
        start=first,
        samples_per_prompt=each,
        sampling=sampling,
        uniform=uniform_numbers(network, streams),
        hidden=hidden,
    )
    for step in steps:
        here = step.position
        codes[:, here] = step.codes[:, 0]
        found = code_log_probs(step.logits[:, None], step.codes)[:, 0]
        log_probs[:, here] = found.masked_fill(~remaining[:, here], 0)
        remaining[:, here] = False
        if (here + 1) % grid.cols == 0 or here == last:
            yield Filled(here + 1, last + 1, codes, remaining, log_probs)
        if here == last:
            return


@torch.inference_mode()
def fill_in_passes(
    model: PretrainModel,
    images: Images,
    hidden: Mask,
    *,
    streams: Sequence[Stream],
    sampling: SamplingConfig,
    passes: Passes,
) -> Iterator[Filled]:
    """Sample the hidden codes in passes over the whole image, given all codes that are known by then, and
    yield after each pass (MaskGIT, Chang et al. 2022, section 3.2).

    A pass samples all remaining codes independently, and keeps those of some positions: with the most known
    ones around (`inward`), of the highest ln p (`confident`, to which MaskGIT adds noise), or `random` ones.
    Precision is the caller's autocast.
    """
    network, each = model.network, len(streams) // len(images)
    pictures = images.repeat_interleave(each, 0)
    hidden = hidden.repeat_interleave(each, 0)
    codes = network.codec.encode(pictures).masked_fill(hidden, 0)
    remaining, log_probs = hidden, torch.zeros(codes.shape, device=codes.device)
    counts = hidden.flatten(1).sum(1)
    total = min(passes.iterations, int(counts.max()))
    noise = random_numbers(hidden.shape[1:], _substreams(streams, "order")).float().to(hidden.device)
    for number in range(1, total + 1):
        positions = hidden_positions(remaining)
        inputs = partial_inputs(network, pictures, codes, hidden, remaining)
        logits = network.head.logits(tokens_at(network.backbone, inputs, remaining, positions))
        uniform = uniform_numbers(network, _substreams(streams, f"pass/{number}"))
        drawn = sample_at(logits, positions, uniform, sampling)
        found = code_log_probs(logits, drawn)
        ranks = noise
        if passes.order == "inward":
            ranks = num_known_nearby(remaining, network.codec.grid) + noise  # which decides between equals
        elif passes.order == "confident":
            ranks = confidence(found, positions, remaining)
        kept = highest(ranks, remaining, remaining_after(counts, number, passes))
        codes = torch.where(kept, scatter(codes, positions, drawn), codes)
        log_probs = torch.where(kept, scatter(log_probs, positions, found.to(log_probs.dtype)), log_probs)
        remaining = remaining & ~kept
        yield Filled(number, total, codes, remaining, log_probs)


def _substreams(streams: Sequence[Stream], what: str) -> list[Stream]:
    return [(seed, f"{purpose}/{what}", image) for seed, purpose, image in streams]


def remaining_after(counts: Int[Tensor, " B"], number: int, passes: Passes) -> Int[Tensor, " B"]:
    """Return how many of `counts` hidden places of each image remain after pass t of T: counts · (1 - t / T)
    for `inward`, counts · cos(π t / 2 T) for others; each pass fills in at least one.
    """
    done = min(1, number / passes.iterations)
    share = 1 - done if passes.order == "inward" else math.cos(math.pi / 2 * done)
    rest, one_each = (counts * share + 1e-6).floor().long(), counts - number
    return torch.where(counts <= passes.iterations, one_each, rest.minimum(one_each)).clamp(min=0)


def hidden_positions(mask: Mask) -> PositionIndices:
    """Return as many positions of each image as any image has hidden, the hidden ones first."""
    whole = mask.any(-1)
    order = whole.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    return order[:, : int(whole.sum(1).max())]


def partial_inputs(network: Network, images: Images, codes: Codes, hidden: Mask, remaining: Mask) -> Inputs:
    """Return what the stem reads: the known pixels, those of codes that were filled in, and black."""
    if network.backbone.stem.reads_codes:
        return codes
    seen = torch.where(hidden_pixels(hidden, images)[:, None], network.codec.decode(codes), images)
    wholly = remaining.all(-1, keepdim=True)  # of a position with single hidden codes, the others are known
    return seen.masked_fill(hidden_pixels(wholly, images)[:, None], 0)


def tokens_at(backbone: Backbone, inputs: Inputs, mask: Mask, positions: PositionIndices) -> SelectedTokens:
    """Return what the head reads at these positions, without computing others where that is possible."""
    if backbone.supports_forward_at:
        return backbone.forward_at(inputs, mask, positions)
    return torch.take_along_dim(backbone(inputs, mask), positions[..., None], 1)


def sample_at(
    logits: SelectedLogits, positions: PositionIndices, uniform: Tensor, sampling: SamplingConfig
) -> SelectedCodes:
    """Sample the codes of these positions, each by the uniform number of its place."""
    numbers = on_device(torch.take_along_dim(uniform, positions.cpu()[..., None], 1), logits.device)
    drawn = sample_codes(rearrange(logits, "b m q k -> (b m) q k"), numbers.flatten(0, 1), sampling)
    return rearrange(drawn, "(b m) 1 q -> b m q", b=len(logits))


def code_log_probs(logits: SelectedLogits, codes: SelectedCodes) -> SelectedLogProbs:
    """Return ln p of codes under a softmax at temperature 1."""
    return torch.take_along_dim(logits.log_softmax(-1), codes[..., None], -1)[..., 0]


def confidence(log_probs: SelectedLogProbs, positions: PositionIndices, mask: Mask) -> Float[Tensor, "B N _"]:
    """Return ln p of the codes of each position, or of each code where single ones are hidden."""
    own = log_probs if mask.shape[-1] > 1 else log_probs.sum(-1, keepdim=True)
    return scatter(own.new_zeros(mask.shape), positions, own)


def num_known_nearby(remaining: Mask, grid: Grid) -> Float[Tensor, "B N 1"]:
    """Return the number of known positions around each, within `NEARBY`, by binomial weights."""
    known = rearrange(~remaining.any(-1), "b (r c) -> b r c", r=grid.rows).float()
    weights = known.new_tensor([math.comb(2 * NEARBY, i) for i in range(2 * NEARBY + 1)])
    for _ in range(2):  # columns, then rows
        windows = pad(known, (NEARBY, NEARBY)).unfold(2, 2 * NEARBY + 1, 1)
        known = (windows * weights).sum(-1).mT
    return rearrange(known, "b r c -> b (r c) 1")


def highest(ranks: Float[Tensor, "B N _"], remaining: Mask, keep_hidden: Int[Tensor, " B"]) -> Mask:
    """Return the remaining places with the highest ranks, all but `keep_hidden` of each image."""
    ordered = ranks.masked_fill(~remaining, -math.inf).flatten(1).argsort(dim=1, descending=True, stable=True)
    place = ordered.argsort(dim=1).view(remaining.shape)
    count = remaining.flatten(1).sum(1) - keep_hidden
    return remaining & (place < count[:, None, None])


def scatter(values: Tensor, positions: PositionIndices, new: Tensor) -> Tensor:
    """Return values [B N ...] with new ones [B M ...] at these positions."""
    return values.scatter(1, positions[..., None].expand_as(new), new)
