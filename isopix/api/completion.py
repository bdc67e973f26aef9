"""Completion step by step: pictures of completions while they are made."""

from collections.abc import Iterator
from functools import partial

from isopix.api.arguments import checked
from isopix.core.choices import Count
from isopix.core.memory import report_memory
from isopix.generate.complete import (
    PartialCompletions,
    Prompt,
    completion_steps,
)
from isopix.generate.config import Order, Passes, SamplingConfig
from isopix.generate.mask import MaskLike, chosen_mask, completion_mask
from isopix.generate.sample import require
from isopix.pretrained.inference import inference
from isopix.pretrained.inputs import ImagesLike, require_images
from isopix.pretrained.model import PretrainedModel


@checked
def complete_steps(
    model: PretrainedModel,
    images: ImagesLike,
    rows: int | None = None,
    *,
    mask: MaskLike | None = None,
    each: Count = 1,
    order: Order | None = None,
    iterations: Count | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> Iterator[PartialCompletions]:
    """Yield what `model.complete` returns as it is made: after every row of an autoregressive model, after
    every pass of a masked one; pixels that are still missing are gray. All completions are made at a time.

    The arguments are those of `PretrainedModel.complete`; the last pictures are its completions. Raises what
    it raises, at once, and RuntimeError if there is not enough memory.
    """
    require(model.loaded.model, "complete")
    model.loaded.require_decoder("complete")
    inputs = require_images(model.preprocess(images))
    chosen = chosen_mask(model.network.codec, rows=rows, mask=mask)
    hidden = completion_mask(chosen, model.network.codec, len(inputs), seed=seed)
    steps = completion_steps(
        model.loaded.model,
        Prompt(inputs, hidden, each),
        sampling=SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p, precision=model.precision),
        passes=Passes(order=order or "inward", iterations=iterations or 24),
        seed=seed,
        context=partial(inference, model, "fp32"),
    )
    return _reported(steps, f"{len(inputs) * each:,} images; complete fewer")


def _reported(steps: Iterator[PartialCompletions], what: str) -> Iterator[PartialCompletions]:
    with report_memory(what):
        yield from steps
