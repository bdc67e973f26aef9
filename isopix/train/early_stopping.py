"""Best: which evaluation of a fine-tuning run is best, and whether there was anything to it."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from isopix.core.types import Labels

DEVIATIONS = 2  # of an accuracy at chance; below that it is no sign of learning
CAUSES = (
    "a learning rate that is too high or too low (lr; try a third of it, and three "
    "times as much), "
    "labels that do not belong to their images, augmentation that does not suit them (data.augment=none)"
)


def judged(record: Mapping[str, Any]) -> bool:
    """Whether it is an evaluation on validation images that tells an accuracy."""
    return record["kind"] == "evaluation" and record["split"] == "validation" and "accuracy" in record


def best(records: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The evaluation with the highest validation accuracy, the first of equals; None where there is none."""
    return max(filter(judged, records), key=lambda record: float(record["accuracy"]), default=None)


class Best:
    """The best of the evaluations seen so far; `waited` counts those since."""

    def __init__(self, patience: int):
        self.patience = patience
        self.accuracy, self.step, self.waited = -1.0, 0, 0

    def see(self, record: Mapping[str, Any]) -> bool:
        """Whether this record is an evaluation that beats all before it."""
        if not judged(record):
            return False
        better = bool(record["accuracy"] > self.accuracy)
        if better:
            self.accuracy, self.step = record["accuracy"], record["step"]
        self.waited = 0 if better else self.waited + 1
        return better

    def recall(self, records: Iterable[Mapping[str, Any]]) -> None:
        """See all records of an earlier process."""
        for record in records:
            self.see(record)

    @property
    def exhausted(self) -> bool:
        """Whether patience has run out (iGPT section 2.3: early stop at the best validation accuracy)."""
        return self.waited >= self.patience


def nothing_learnt(accuracy: float, labels: Labels) -> str:
    """A sentence that says so, with the likely causes, if the accuracy is within noise of the best constant
    answer's; empty otherwise.
    """
    count = len(labels)
    chance = labels.bincount().max().item() / count
    noise = DEVIATIONS * math.sqrt(chance * (1 - chance) / count)
    if accuracy > chance + noise:
        return ""
    return (
        f"nothing learnt yet: {accuracy:.1%} of {count:,} validation images are classified rightly, no more "
        f"than chance gives (the most frequent class is {chance:.1%}); likely causes: {CAUSES}"
    )
