"""Completions of one image, picture by picture as they are made."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from isopix.api.completion import complete_steps
from isopix.api.completion_record import LATER_PIXELS, later_known
from isopix.core.types import Images
from isopix.generate.complete import GRAY, PartialCompletions, likelihood_kind
from isopix.generate.config import Order, Passes
from isopix.generate.mask import MaskLike, PixelMask, completion_mask, hidden_pixels
from isopix.generate.sample import require
from isopix.studio.opened_run import OpenedRun, pixels_of
from isopix.studio.tiles import Tile

MEANING = {
    "raster": "Below each picture: its log-likelihood, the sum over the hidden codes of "
    "ln p(code | codes before it).",
    "path": "Below each picture: the log-probability of the path taken, the sum over the hidden codes of "
    "ln p(code | visible codes and those of earlier passes).",
}


@dataclass(frozen=True, kw_only=True)
class CompletionSettings:
    """How to complete; `order` and `iterations` are of masked models."""

    each: int = 4
    temperature: float = 1.0
    top_k: int | None = None
    seed: int = 0
    order: Order = Passes().order
    iterations: int = Passes().iterations


class CompletionFrame(NamedTuple):
    """Pictures after `done` of `total` rows or passes."""

    tiles: list[Tile]
    done: int
    total: int
    note: str


def completion_frames(
    run: OpenedRun, image: Images, mask: MaskLike, settings: CompletionSettings
) -> Iterator[CompletionFrame]:
    """Yield the image, what the model sees of it, and its completions, after each row or pass.

    The completions are those of `PretrainedModel.complete` for this image and seed. Raises ValueError, at
    once, for a model that cannot complete images and for wrong settings.
    """
    run.loaded.require_decoder("complete")
    require(run.loaded.model, "complete")
    codec, objective = run.model.network.codec, run.loaded.recipe.objective
    hidden = hidden_pixels(completion_mask(mask, codec, 1, seed=settings.seed), image)
    steps = complete_steps(
        run.model,
        image,
        mask=mask,
        each=settings.each,
        temperature=settings.temperature,
        top_k=settings.top_k,
        order=None if objective.can_sample else settings.order,
        iterations=None if objective.can_sample else settings.iterations,
        seed=settings.seed,
    )
    note = MEANING[likelihood_kind(run.loaded.model)]
    if objective.can_sample and later_known(hidden, codec):
        note = f"{note} Note: {LATER_PIXELS}."
    return _frames([Tile(pixels_of(image), "original"), _visible_tile(run, image, hidden)], steps, note)


def _frames(given: list[Tile], steps: Iterator[PartialCompletions], note: str) -> Iterator[CompletionFrame]:
    for step in steps:
        captions = [_format_nats(nats) if step.done == step.total else "" for nats in step.log_likelihood[0]]
        made = [
            Tile(pixels_of(each[None]), text) for each, text in zip(step.images[0], captions, strict=True)
        ]
        yield CompletionFrame([*given, *made], step.done, step.total, note)


def _visible_tile(run: OpenedRun, image: Images, hidden: PixelMask) -> Tile:
    """The image as the network reads it, gray where it is hidden."""
    network = run.model.network
    seen = network.visible_pixels(image.to(network.device)).cpu()
    return Tile(pixels_of(seen.masked_fill(hidden[:, None], GRAY)), "visible part")


def _format_nats(nats: Tensor) -> str:
    return f"{float(nats):,.1f} nats".replace("-", "\N{MINUS SIGN}")
