"""Fine-tuning, as a part of the report: the share of images whose class a run answers, step by step."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from markupsafe import Markup

from isopix.core.bootstrap import REACH
from isopix.plots import finetuning, svg
from isopix.report.finetuning import settings_of
from isopix.report.load_run import Gathered
from isopix.train.early_stopping import best_evaluation

Values = Mapping[str, Any]


class Tuned(NamedTuple):
    """Test accuracy with its 95 % interval, None before the end; the chart, and what it shows."""

    test: float | None
    low: float | None
    high: float | None
    images: int
    chart: Markup
    caption: str
    judged: str  # which weights the test images judge, or why they judge none


def is_tuned(run: Gathered) -> bool:
    """Whether the run learns classes."""
    return bool(run.recipe.get("classify"))


def accuracy(run: Gathered) -> tuple[float, float, float, int] | None:
    """The test accuracy of a fine-tuned run, its interval, and of how many images; None if there is none."""
    tested = [each for each in run.records if each.get("split") == "test" and "accuracy" in each]
    if not tested:
        return None
    share, count = float(tested[-1]["accuracy"]), int(tested[-1]["images"])
    return (share, *wilson(share, count), count)


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of `count` independent images (Wilson's score)."""
    square = REACH**2 / count
    centre = (share + square / 2) / (1 + square)
    half = math.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    return max(0.0, centre - half), min(1.0, centre + half)


def tuned(run: Gathered, name: str) -> Tuned | None:
    """The part of a fine-tuned run; None for any other, or before its first evaluation."""
    seen = [each for each in run.records if each["kind"] == "evaluation" and "accuracy" in each]
    if not is_tuned(run) or not seen:
        return None
    found = accuracy(run)
    test, low, high, images = found or (None, None, None, 0)
    chosen = best_evaluation(seen) if _chooses(run) else None
    chance = run.environment.get("majority")
    drawn = finetuning.accuracy_by_step(seen, chance, chosen=chosen)
    chart = svg.markup(drawn, name, _alt(chosen))
    return Tuned(test, low, high, images, chart, _caption(run, chosen), _judged(run))


def _chooses(run: Gathered) -> bool:
    """Whether validation chose the step whose weights are judged."""
    settings = settings_of(run.recipe)
    return settings is not None and settings.early_stops


def _alt(chosen: Values | None) -> str:
    reached = (
        f" The best validation accuracy is {chosen['accuracy']:.1%} at step {chosen['step']}."
        if chosen
        else ""
    )
    return f"Accuracy by step of fine-tuning.{reached}"


def _judged(run: Gathered) -> str:
    if run.recipe.get("test_images") == 0:
        return "The test images are left alone, as by a run that chooses the number of steps of another."
    choice = run.environment.get("selected")
    if not choice:
        which = "that validation chose" if _chooses(run) else "of the last step, as nothing was chosen"
        return f"by the weights {which}"
    return (
        f"by a network that learnt from the training and the validation images together for "
        f"{choice['step']:,} steps, as many as validation had chosen before, with an accuracy of "
        f"{100 * choice['validation_accuracy']:.1f}\u00a0% there"
    )


def _caption(run: Gathered, chosen: Values | None) -> str:
    settings, whence = run.recipe["classify"], run.environment.get("pretrained")
    start = f"Fine-tuned from step {whence['step']:,} of {whence['run']}" if whence else "From scratch"
    weight = settings["generative_weight"]
    alone = {"inf": "L_GEN alone", 0.0: "L_CLF alone"}
    loss = alone.get(weight) or f"{weight:g} · L_GEN + L_CLF"
    layer = "the last layer" if settings["layer"] is None else f"layer {settings['layer']}"
    ring = f" The ring is the step that validation chose, {chosen['step']:,}." if chosen else ""
    return f"{start}; loss {loss}, classes read from {layer}.{ring}"
