"""Evaluations in training: the evaluators that are due at a step, and what they return, as log records."""

import math
import traceback
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch

from isopix.model.network import evaluation_mode
from isopix.train.config import TrainConfig
from isopix.train.evaluator import EvaluationContext, EvaluationError, EvaluatorSpec

MAX_SHOWN = 60  # characters of a wrong value in a note


class Evaluations:
    """The evaluators of a training. Raises what `start` of an evaluator raises."""

    def __init__(self, specs: Sequence[EvaluatorSpec], context: EvaluationContext, config: TrainConfig):
        self.evaluators = [(spec, spec.start(context)) for spec in specs]
        self.module, self.steps = context.task.module, config.steps
        own = {spec.every for spec in specs if spec.every is not None}
        self.intervals = (config.evaluate_every, *own)

    def is_due(self, step: int) -> bool:
        """Return whether any evaluator runs at a step: all run at the first and the last one."""
        return step in (0, self.steps) or any(step % every == 0 for every in self.intervals)

    def run(self, step: int) -> list[dict[str, Any]]:
        """Run the evaluators that are due at a step, and return the records for the log.

        What an evaluator does wrong is a note and not the end of training. Raises ValueError before the first
        step for two metrics of one name, and what an evaluator that may not fail raises.
        """
        metrics: dict[str, int | float] = {}
        notes = list[str]()
        with evaluation_mode(self.module), torch.no_grad():
            for spec, evaluate in self.evaluators:
                if spec.every is None or step in (0, self.steps) or step % spec.every == 0:
                    try:
                        notes += _add_metrics(metrics, evaluate(step), spec, step)
                    except Exception as error:
                        if not spec.may_fail or isinstance(error, DuplicateMetricError):
                            raise
                        notes.append(f"no {spec.label()} at step {step}: {_cause(error)}")
        evaluation = {"kind": "evaluation", "step": step, "split": "validation", **metrics}
        records = [{"kind": "note", "step": step, "text": text} for text in notes]
        return [evaluation, *records] if metrics else records


class DuplicateMetricError(ValueError):
    """A metric of a name that the log record has already, found before the first step."""


def _add_metrics(metrics: dict[str, int | float], found: object, spec: EvaluatorSpec, step: int) -> list[str]:
    """Add what an evaluator returned, and return a note for each part of it that is no metric.

    Raises ValueError for one of an evaluator that may not fail, and DuplicateMetricError before the first
    step.
    """
    notes = list[str]()
    if not isinstance(found, Mapping):
        notes.append(f"returns {_shown(found)}; allowed: a dict of finite numbers by name")
        found = {}
    for name, value in found.items():
        if name in metrics or name in {"kind", "step", "split"}:
            notes.append(f"returns '{name}', which the log record has already")
            if step == 0:
                raise DuplicateMetricError(f"evaluator '{spec.kind}' {notes[-1]}")
        elif not isinstance(name, str):
            notes.append(f"returns a metric named {_shown(name)}; allowed: strings")
        elif not isinstance(value, Real) or not math.isfinite(value):
            notes.append(f"returns {_shown(value)} for '{name}'; allowed: finite numbers")
        else:
            metrics[name] = int(value) if isinstance(value, Integral) else float(value)
    notes = [f"evaluator '{spec.kind}' {text} (step {step})" for text in notes]
    if notes and not spec.may_fail:
        raise ValueError(notes[0])
    return notes


def _shown(value: object) -> str:
    """A value in one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _cause(error: Exception) -> str:
    """An error in one line, with its place in the code unless it was raised to be read."""
    text = " ".join(str(error).split())
    if isinstance(error, EvaluationError):
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} ({Path(place.filename).name}, line {place.lineno})"
