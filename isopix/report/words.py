"""A recipe in words: plain sentences of the values in `recipe.json`; what has no words goes by its name."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from string import Formatter
from typing import Any

from isopix.core.overrides import flatten
from isopix.report import finetuning
from isopix.report.hiding import in_blocks
from isopix.report.sayings import CODES, FROM, NEUTRAL, SAYINGS

Values = Mapping[str, Any]

LEAST_EPOCHS = 0.01
NETWORK = (
    "Images of <data.rows> × <data.cols> pixels go through <depth> <block>.",
    "<share_blocks>.",
    "Each position enters as <stem> plus <positions>; the blocks use <block.norm>.",
    "<class_token>.",
)
CODED = ("<codec>.", "The colours are <codec.source>.")
OBJECTIVE = ("<objective>.",)
MASK = ("<objective.mask>.",)
MASKING = ("<objective.deterministic_mask>.", "<objective.corruption>.")
HEAD = ("<head>.",)
TRAINING = (
    "The images are <data.source>, <data.augment>.",
    "<data.patch_augment>.",
    "Of each split only the first <data.limit> images are used.",
    "The weights start <initial>.",
    "<optimizer>, in <precision>; <schedule>.",
)
# What most recipes leave as it is goes without saying.
SELDOM = (
    "share_blocks",
    "class_token",
    "objective.deterministic_mask",
    "objective.corruption",
    "head",
    "data.patch_augment",
)


def sentences(
    recipe: Values, images: Mapping[str, int] | None = None, origin: Values | None = None
) -> list[str]:
    """Architecture, codes, objective, data, optimisation, length; `images` is how many each split holds, and
    `origin` the `run` and the `step` that the weights are from, if they are of another run.
    """
    tuning = finetuning.told(recipe, code(recipe))
    reads_codes = flatten(recipe).get("stem.kind") == "token_embedding"
    words = [
        *_said(NETWORK, recipe),
        *(_said(CODED, recipe) if reads_codes or not tuning.alone else []),
        *(_said(OBJECTIVE, recipe) if not tuning.alone else []),
        *tuning.loss,
        *(_said(MASK, recipe) if tuning.hidden is None else [tuning.hidden]),
        *(_said(MASKING, recipe) if tuning.hides else []),
        *(_said(HEAD, recipe) if not tuning.alone else []),
        *tuning.classes,
        *_said(TRAINING, _begun(recipe, origin)),
        _length(recipe, images or {}),
    ]
    return [singular(sentence) for sentence in words]


def imported(recipe: Values, origin: str, step: int, data: str | None) -> list[str]:
    """Architecture, codes and objective of somebody else's model: all that its files tell.

    `step` is 0 where it is not known; `data` is what the images of its training were stated to be.
    """
    goal, _, _ = _say("<objective>", recipe).partition(":")  # how much was hidden is no part of the weights
    beyond = f" beyond its {step:,} steps" if step else ""
    origins = [f"It is imported from {origin}; its training is not known{beyond}."]
    stated = [f"It was stated, when it was imported, to be trained on “{data}”."] if data else []
    sentences = [*_said((*NETWORK, CODED[0]), recipe), f"{goal}.", *origins, *stated]
    return [singular(sentence) for sentence in sentences]


def singular(text: str) -> str:
    """The text with one of a thing as one: `1 steps` is `1 step`."""
    things = "block|head|step|image|epoch|colour|evaluation"
    return re.sub(rf"(?<![\d.,])1 ((?:[a-z]+ )?(?:{things}))s\b", r"1 \1", text)


def architecture(recipe: Values) -> str:
    """The network as a headline begins: `4 blocks of width 64`."""
    return singular(_say("<depth> blocks of width <width>", recipe))


def learns(recipe: Values) -> str:
    """What is learnt, in a word or two: the objective, classes, or both."""
    return finetuning.learns(recipe, objective(recipe))


def objective(recipe: Values) -> str:
    """The objective's name."""
    return str(flatten(recipe).get("objective.kind", "unknown")).replace("_", " ")


def code(recipe: Values) -> str:
    """What one code stands for, in the unit of a loss: `pixel`, `sub-pixel`, or `code` where that is not
    known.
    """
    return _codes(recipe)[0]


def place(recipe: Values) -> str:
    """What a position is: a pixel, or a patch of them."""
    return "patch" if "codec.patch" in flatten(recipe) else "pixel"


def graded(recipe: Values) -> str:
    """What a loss is the mean of: every pixel, or hidden ones alone."""
    return f"{'hidden ' if objective(recipe) == 'masked' else ''}{code(recipe)}"


def _codes(recipe: Values) -> tuple[str, str]:
    return CODES.get(str(flatten(recipe).get("codec.kind")), ("code", "each of its codes"))


def _said(sentences: Sequence[str], recipe: Values) -> list[str]:
    """Those of the sentences that apply, with every <path> put into words."""
    values = flatten(recipe)
    return [_say(sentence, recipe) for sentence in sentences if _applies(sentence, values)]


def _applies(sentence: str, values: Values) -> bool:
    """Not every codec has a palette, nor every objective a mask, nor every run a limit."""
    if "<codec.source>" in sentence:
        return "codec.source" in values
    if "<objective.mask>" in sentence:
        return "objective.mask.kind" in values
    if "<initial>" in sentence:
        return "initial" in values
    for path in SELDOM:
        if f"<{path}>" in sentence:
            return _saying(path, values) is not None
    return "<data.limit>" not in sentence or values.get("data.limit") is not None


def _begun(recipe: Values, origin: Values | None) -> Values:
    """The recipe with the weights that it starts from, where they are those of another run."""
    if origin is None:
        return recipe
    return {**recipe, "initial": FROM, "origin": {**origin, "run": PurePath(str(origin.get("run"))).name}}


def _length(recipe: Values, images: Mapping[str, int]) -> str:
    steps, batch, train = recipe.get("steps"), recipe.get("batch"), images.get("train")
    sentence = _say("<steps> steps of <batch> images, with seed <seed>", recipe)
    if not isinstance(steps, int) or not isinstance(batch, int):
        return f"{sentence}."
    length = f": {epochs(steps * batch / train)} epochs of {train:,}" if train else ""
    return f"{sentence}; in all {steps * batch:,} images{length}."


def epochs(count: float) -> str:
    """A number of epochs, with digits enough to tell it from none."""
    if count < LEAST_EPOCHS:
        return f"less than {LEAST_EPOCHS}"
    return f"{count:,.1f}" if count >= 1 else f"{count:.2g}"


def _say(sentence: str, recipe: Values) -> str:
    """The sentence with every <path> put into words."""
    parts = sentence.replace("<", "\0").replace(">", "\0").split("\0")
    return "".join(_part(part, recipe) if number % 2 else part for number, part in enumerate(parts))


def _part(path: str, recipe: Values) -> str:
    """What is said of one part: its saying, else its kind in quotation marks, else the number itself."""
    values = flatten(recipe)
    saying = _saying(path, values)
    try:
        if saying:
            return _ByPath().vformat(saying, (), values | _besides(recipe, values)).replace("%", "\u00a0%")
    except (KeyError, ValueError, TypeError):
        pass  # a setting that the saying speaks of is not there, or is no number
    return NEUTRAL.get(path, "{}").replace("{}", _name(values.get(f"{path}.kind", values.get(path))))


def _saying(path: str, values: Values) -> str | None:
    """What there is to say of the kind or value at this path."""
    value = values.get(f"{path}.kind", values.get(path))
    return SAYINGS.get(path, {}).get(value) if isinstance(value, str | bool | None) else None


def _besides(recipe: Values, values: Values) -> dict[str, object]:
    """What sayings speak of and no value of the recipe is."""
    code, content = _codes(recipe)
    left = "what is left before each" if values.get("objective.causal") is True else "all that is left"
    smoothing = values.get("objective.label_smoothing")
    soft = f"; in training {100 * smoothing:g}% of each label is shared among all levels" if smoothing else ""
    flip = values.get("data.augment.flip")
    mirrored = f", and mirrored with chance {flip:g}" if flip else ""
    return {
        "mirrored": mirrored,
        "code": code,
        "content": content,
        "left": left,
        "soft": soft,
        **in_blocks(values),
    }


def _name(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,}"
    return "(unknown)" if value is None else f"“{value}”"


class _ByPath(Formatter):
    """`{block.heads}` is the value of that path, not an attribute."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        return kwargs[field_name], field_name
