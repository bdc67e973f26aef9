"""Whether a decoder fits its backbone, by the log of the run that trained them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isopix.recipes.recipe import Recipe
from isopix.storage.log import read_log


def decoder_fits(recipe: Recipe, step: int, log: Path, *, initially: bool) -> bool:
    """Return whether the decoder fits the backbone after `step`; `initially` is whether it did at step 0.

    One that did not, because fine-tuning on classes alone had changed the backbone, does so again when the
    last validation loss of the codes is below their unigram baseline.
    """
    if step == 0:
        return initially
    return recipe.predicts_codes and (initially or _is_below_unigram(read_log(log)))


def unigram_nats(records: Sequence[dict[str, Any]]) -> float | None:
    """Return the unigram baseline of the validation images, in nats per predicted code, if a log has it."""
    for record in records:
        if record["kind"] == "baselines" and record["held_out"] == "validation":
            nats: float | None = record["nats"].get("unigram")
            return nats
    return None


def _is_below_unigram(records: Sequence[dict[str, Any]]) -> bool:
    """Whether the last validation loss of the codes is below the unigram baseline; False if unknown."""
    validated = [each["loss_nats"] for each in records if _has_validation_loss(each)]
    baseline = unigram_nats(records)
    return bool(validated) and baseline is not None and validated[-1] < baseline


def _has_validation_loss(record: dict[str, Any]) -> bool:
    is_validation = record["kind"] == "evaluation" and record.get("split") == "validation"
    return is_validation and "loss_nats" in record
