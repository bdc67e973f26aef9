"""What a network has seen before, and whether its decoder fits its backbone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isopix.recipes.recipe import Recipe
from isopix.storage.log import read_log


class Origin(NamedTuple):
    """The numbers of labels that a network has seen with those of this run and before it, None if that is not
    known, and whether its initial weights have a decoder that fits.
    """

    labels_seen: int | None
    initial_labels_seen: int | None
    decoder_valid: bool

    def labels_at(self, step: int | None) -> int | None:
        """Return the number of labels seen by the weights of a step; None is the whole run."""
        return self.initial_labels_seen if step == 0 else self.labels_seen


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
