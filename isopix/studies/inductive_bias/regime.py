"""Whether the networks of a study can show a claim: why not, in words, or an empty text if they can.

A block can show a difference of accuracies if its networks are clearly above their baselines, and one of
losses or reconstructions if they predict better than the frequencies of levels do. Clearly is two standard
errors over seeds and test images: Student's interval would call few seeds a regime in which nothing can be
seen. Encodings and depths are no source of error here: the question is of these networks, not of others.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from isopix.core.stats import Z_95
from isopix.studies.inductive_bias.evidence import Cells, Mean, StudyEvidence, Term
from isopix.studies.inductive_bias.trials import Trial

MAIN_BLOCKS = ("conv", "mixer", "transformer-1")
NO_SLOPE = "accuracy does not clearly fall with the loss"
NOT_ABOVE = "no block of these is, averaged over its networks, clearly above its baselines"
NOT_BELOW = (
    "no block of these, averaged over its networks, clearly predicts better than frequencies of levels"
)


def all_blocks(evidence: StudyEvidence) -> str:
    """Return which block has no network at all; a claim over all networks is not one over the others."""
    missing = [block for block in MAIN_BLOCKS if block not in evidence.blocks]
    return f"no {' and no '.join(missing)} was trained" if missing and evidence.trials else ""


def accuracies(evidence: StudyEvidence, blocks: Sequence[str], depth: int | None = None) -> str:
    """Return why no block of these can show accuracies, of the networks of one depth if it is given."""
    above = (_above_baselines(evidence, block, depth) for block in blocks)
    return "" if any(above) else NOT_ABOVE


def predictions(evidence: StudyEvidence, blocks: Sequence[str]) -> str:
    """Return why no block of these can show losses or reconstructions."""
    return "" if any(_below_unigram(evidence, block) for block in blocks) else NOT_BELOW


def _above_baselines(evidence: StudyEvidence, block: str, depth: int | None) -> bool:
    """Whether a block's accuracy is clearly above each of its baselines."""
    own = [trial for trial in evidence.trials if trial.block == block and depth in (None, trial.depth)]
    names = dict.fromkeys(name for trial in own for name in trial.probes[evidence.pool].baselines)

    def gain(name: str) -> Mean:
        def terms(trial: Trial) -> list[Term] | None:
            baseline = trial.probes[evidence.pool].baselines.get(name)
            return None if baseline is None else [Term(1, evidence.probes(trial)), Term(-1, baseline)]

        return evidence.mean_accuracy(Cells(*evidence.paired(_kinds(own), _of_block(evidence, block, terms))))

    return bool(names) and all(_clearly_positive(gain(name)) for name in names)


def _below_unigram(evidence: StudyEvidence, block: str) -> bool:
    """Whether a block's loss is clearly below that of predicting frequencies; so where this is not known."""
    own = [trial for trial in evidence.trials if trial.block == block]

    def gain(trial: Trial) -> float | None:
        unigram = evidence.measurement(trial, "unigram")
        return None if unigram is None else float(unigram) - trial.loss

    known = [trial for trial in own if gain(trial) is not None]
    found = evidence.mean_values(_kinds(known), _of_block(evidence, block, gain))
    return not known or _clearly_positive(found)


def _of_block(
    evidence: StudyEvidence, block: str, read: Callable[[Trial], Any]
) -> Callable[[int, tuple[str, int]], Any]:
    """Return a function that reads the trial of a seed and a kind; None where there is no such trial."""

    def find(seed: int, kind: tuple[str, int]) -> Any:
        trial = evidence.by_seed[seed].get((block, *kind))
        return None if trial is None else read(trial)

    return find


def _kinds(trials: Sequence[Trial]) -> list[tuple[str, int]]:
    return list(dict.fromkeys(trial.kind for trial in trials))


def _clearly_positive(found: Mean) -> bool:
    estimate = found.estimate
    if estimate is None:
        return False
    errors = [each.standard_error for each in estimate.sources if each.name != "kinds"]
    return estimate.mean > Z_95 * math.hypot(*errors)
