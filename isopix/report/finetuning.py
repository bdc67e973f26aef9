"""Fine-tuning in words: what is learnt of which labels, what tells the classes, and what is hidden."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from isopix.core.config import from_dict
from isopix.core.overrides import flatten
from isopix.finetune.config import FineTuneConfig
from isopix.report.hiding import single

Values = Mapping[str, Any]

PERCENT = "\u00a0%"  # behind a space that does not break
POOLED = {
    "mean": "the mean over positions",
    "last": "the last position",
    "max": "the largest value of each channel over positions",
    "first": "the first position",
}


class Told(NamedTuple):
    """Sentences about the loss, about what is hidden in the place of the objective's mask (None: it stays),
    and about the classes; `alone`: no code is learnt, `hides`: something is hidden where the objective does.
    """

    alone: bool = False
    loss: tuple[str, ...] = ()
    hidden: str | None = None
    classes: tuple[str, ...] = ()
    hides: bool = True


def settings_of(recipe: Values) -> FineTuneConfig | None:
    """The settings of fine-tuning; None of a run that is none, or is of settings that are not known here."""
    values = recipe.get("classify")
    try:
        return from_dict(FineTuneConfig, values) if isinstance(values, Mapping) else None
    except ValueError:
        return None


def classes_alone(recipe: Values) -> bool:
    """Whether classes are learnt and no codes, so that whatever names codes says nothing of the run."""
    settings = settings_of(recipe)
    return settings is not None and not settings.has_generative_loss


def learns(recipe: Values, objective: str) -> str:
    """What is learnt, in a word or two: the objective, the classes, or both."""
    settings = settings_of(recipe)
    if settings is None or not settings.has_class_loss:
        return objective
    return f"{objective}, classes" if settings.has_generative_loss else "classes"


def told(recipe: Values, code: str) -> Told:
    """What fine-tuning adds to the recipe in words, or says in the place of some of them."""
    settings, values = settings_of(recipe), flatten(recipe)
    if settings is None:
        return Told()
    masked = values.get("objective.kind") == "masked"
    hidden = _hidden(settings, values) if masked and settings.mask_ratio is not None else None
    classes = _classes(settings, values, masked=masked) if settings.has_class_loss else ()
    loss = _loss(settings, values, code)
    labels = _labels(values, needed=settings.has_class_loss)
    return Told(not settings.has_generative_loss, loss, hidden, (*labels, *classes), settings.mask_ratio != 0)


def _loss(settings: FineTuneConfig, values: Values, code: str) -> tuple[str, ...]:
    if not settings.has_class_loss:
        return ("Of the two losses of fine-tuning it learns that of codes alone (L_GEN), and no classes.",)
    if settings.has_generative_loss:
        weight = float(settings.generative_weight)
        loss = "L_GEN + L_CLF" if weight == 1 else f"{weight:g} · L_GEN + L_CLF"
        return (f"At the same time it learns their classes: the loss is {loss}.",)
    causal = values.get("objective.kind") == "autoregressive" or values.get("objective.causal") is True
    back = ("No position looks at a later one.",) if causal else ()
    left = f"what names {code}s is left behind"
    return (f"The network learns the classes of images alone (L_CLF); {left}.", *back)


def _labels(values: Values, *, needed: bool) -> tuple[str, ...]:
    wanted, subset = values.get("data.labels"), values.get("data.subset", 0)
    if wanted is None:
        return ("All labels of the training images are used.",) if needed else ()
    many = str(wanted)
    whose = f"Of each class it learns from {many} training images" if many.isdigit() else ""
    share = f"Of the training images of each class it learns from {many.replace('%', PERCENT)}"
    return (f"{whose or share}, draw {subset}.",)


def _hidden(settings: FineTuneConfig, values: Values) -> str:
    if not settings.mask_ratio:
        return "Nothing is hidden."
    return f"In training {single(settings.mask_ratio, values).replace('%', PERCENT)}."


def _classes(settings: FineTuneConfig, values: Values, *, masked: bool) -> tuple[str, ...]:
    """What tells them, what training makes harder, how they are judged, and by which weights."""
    pooled = POOLED[settings.pool]
    if settings.pool == "first" and values.get("class_token") is True:
        pooled = "the class token"
    layer = "the last layer" if settings.layer is None else f"layer {settings.layer}"
    block = "through one more residual block, " if settings.residual_block else ""
    head = f"Classes are told from {pooled} of {layer}, {block}by one matrix."
    choice = (
        f"The weights of the best validation accuracy are judged, and {settings.patience} evaluations without"
        " a better one end the run."
        if settings.early_stops
        else "No step is chosen: the weights of the last one are judged."
    )
    return (head, *_harder(settings), *(_judging(settings) if masked else ()), choice)


def _harder(settings: FineTuneConfig) -> tuple[str, ...]:
    parts = []
    if settings.dropout:
        parts.append(f"{100 * settings.dropout:g}{PERCENT} of what the matrix reads is left out")
    if settings.label_smoothing:
        parts.append(f"{100 * settings.label_smoothing:g}{PERCENT} of each label is shared among all classes")
    return (f"In training {', and '.join(parts)}.",) if parts else ()


def _judging(settings: FineTuneConfig) -> tuple[str, ...]:
    if settings.mask_ratio == 0:
        return ()
    return ("Judging hides as much.",) if settings.mask_at_eval else ("Judging hides nothing.",)
