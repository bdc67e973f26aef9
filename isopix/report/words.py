"""A recipe in words: plain sentences of the values in `recipe.json`; what has no words goes by its name."""

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from isopix.core.config import flatten

Values = Mapping[str, Any]

# path of a part: its kind or value: what is said of it, with values of the recipe by their path
SAYINGS: dict[str, dict[str | None, str]] = {
    "block": {
        "transformer": "transformer blocks of width {width:,} with {block.heads} attention heads",
        "convolution": "convolution blocks of width {width:,}",
        "mixer": "mixer blocks of width {width:,}",
        "axial": "axial blocks of width {width:,} with {block.heads} attention heads",
    },
    "block.norm": {
        "root_mean_square": "norms that subtract no mean and have no bias",
        "layer": "standard layer norms",
    },
    "stem": {
        "codes": "a learned vector for {content}",
        "fourier": "{stem.frequencies:,} random Fourier frequencies (σ {stem.sigma:g}) of each of its"
        " channels, through a learned matrix,",
        "continuous": "its three channels as numbers, through a learned matrix,",
        "patches": "its pixels, through a learned matrix,",
        "convolved_patches": "its pixels, through convolutions of its own,",
        "resnet": "its pixels, through a residual network of its own,",
    },
    "positions": {
        "learned": "a learned vector for its place",
        "factorised": "learned vectors for its row and its column",
        "none": "nothing for its place",
    },
    "codec": {
        "palette": "Each pixel is named by the nearest of {codec.colours:,} colours",
        "bytes": "Each pixel is named by its red, green and blue level of 256, its three sub-pixels",
        "mean_colour": "Each patch of {codec.patch} × {codec.patch} pixels is named by its mean colour, in"
        " {codec.bits} bits a channel",
        "downsampled_colour": "Each patch of {codec.patch} × {codec.patch} pixels is named by"
        " {codec.side} × {codec.side} colours, in {codec.bits} bits a channel",
        "grey_thumbnail": "Each patch of {codec.patch} × {codec.patch} pixels is named by the greys of 8 × 8"
        " of them, in {codec.bits} bits",
        "whole_patch": "Each patch of {codec.patch} × {codec.patch} pixels is named by the red, green and"
        " blue level of 256 of each of them, its sub-pixels",
    },
    "head": {
        "regression": "No level is chosen: each {code} is given a mean, and its loss is half the squared"
        " error of levels scaled to −1 to 1",
    },
    "codec.source": {None: "fitted to the training images by k-means"},
    "objective": {
        "autoregressive": "The network learns to name every {code} from those before it, row by row"
        " (autoregressive)",
        "masked": "The network learns to name hidden {code}s from all that is left (masked, as BERT)",
    },
    "objective.mask": {
        "independent": "{objective.mask.ratio:.0%} of all positions are hidden, each by its own chance",
        "subpixel": "{objective.mask.ratio:.0%} of all {code}s are hidden, each by its own chance",
        "blocks": "{objective.mask.ratio:.0%} of all positions are hidden, in squares of"
        " {objective.mask.side} × {objective.mask.side}",
    },
    "objective.masking": {
        "mask_token": "In the place of what is hidden stands a learned vector; {objective.swapped:.0%} of"
        " what is asked shows another position, and {objective.kept:.0%} itself",
        "drop": "What is hidden is left out",
    },
    "data.noise": {"patch": "In training, colours and places of the pixels shown are disturbed at random"},
    "initial": {
        "openai": "as in OpenAI's code",
        "keras": "as Keras does it",
        "vit": "as in the Vision Transformer's code",
    },
    "data.augment": {
        "none": "taken as they are",
        "pad_crop_flip": "padded by {data.augment.pad} reflected pixels, cropped back at random and mirrored"
        " with chance {data.augment.flip:g}",
        "imagenet": "scaled and cropped at random, anew each time",
    },
    "optimiser": {
        "adam": "Adam (β₁ {optimiser.beta1:g}, β₂ {optimiser.beta2:g}) at a peak rate of"
        " {optimiser.learning_rate:g}",
        "adamw": "AdamW (β₁ {optimiser.beta1:g}, β₂ {optimiser.beta2:g}, decay {optimiser.weight_decay:g}) at"
        " a peak rate of {optimiser.learning_rate:g}",
    },
    "schedule": {
        "warmup_cosine": "after a {schedule.warmup_epochs:g}-epoch warm-up, at most"
        " {schedule.warmup_most:.0%} of the steps, the rate falls towards zero as half a cosine",
        "constant": "the rate stays the same",
    },
    "precision": {"fp32": "32-bit arithmetic", "bf16": "bfloat16 arithmetic with 32-bit weights"},
}
NEUTRAL = {
    "block": "blocks of the kind {}",
    "codec": "Images are coded by {}",
    "codec.source": "those of {}",
    "objective": "The objective is {}",
    "objective.mask": "Positions are hidden by {}",
    "optimiser": "The optimiser is {}",
    "schedule": "the schedule of the rate is {}",
}
# kind of codec: what one code stands for, and all codes of a position
CODES = {
    "palette": ("pixel", "its colour"),
    "bytes": ("sub-pixel", "each of its channels"),
    "mean_colour": ("mean colour", "its mean colour"),
    "downsampled_colour": ("patch colour", "each of its colours"),
    "grey_thumbnail": ("grey pixel", "each of its greys"),
    "whole_patch": ("sub-pixel", "each of its sub-pixels"),
}
LEAST_EPOCHS = 0.01
NETWORK = (
    "Images of <data.rows> × <data.cols> pixels go through <depth> <block>.",
    "Each position enters as <stem> plus <positions>; the blocks use <block.norm>.",
    "<codec>.",
)
SENTENCES = (
    *NETWORK,
    "The colours are <codec.source>.",
    "<objective>.",
    "<objective.mask>.",
    "<objective.masking>.",
    "<head>.",
    "The images are <data.source>, <data.augment>.",
    "<data.noise>.",
    "Of each split only the first <data.limit> images are used.",
    "The weights start <initial>.",
    "<optimiser>, in <precision>; <schedule>.",
)


def sentences(recipe: Values, images: Mapping[str, int] | None = None) -> list[str]:
    """Architecture, codes, objective, data, optimisation, length; `images` is how many each split holds."""
    values = flatten(recipe)
    words = [_say(sentence, recipe) for sentence in SENTENCES if _applies(sentence, values)]
    return [singular(sentence) for sentence in (*words, _length(recipe, images or {}))]


def imported(recipe: Values, origin: str, step: int, data: str | None) -> list[str]:
    """Architecture, codes and objective of somebody else's model: all that its files tell.

    `step` is 0 where it is not known; `data` is what the images of its training were stated to be.
    """
    goal, _, _ = _say("<objective>", recipe).partition(":")  # how much was hidden is no part of the weights
    beyond = f" beyond its {step:,} steps" if step else ""
    origins = [f"It is imported from {origin}; its training is not known{beyond}."]
    stated = [f"It was stated, when it was imported, to be trained on “{data}”."] if data else []
    sentences = [*(_say(sentence, recipe) for sentence in NETWORK), f"{goal}.", *origins, *stated]
    return [singular(sentence) for sentence in sentences]


def singular(text: str) -> str:
    """The text with one of a thing as one: `1 steps` is `1 step`."""
    return re.sub(r"(?<![\d.,])1 ((?:[a-z]+ )?(?:block|head|step|image|epoch|colour))s\b", r"1 \1", text)


def architecture(recipe: Values) -> str:
    """The network as a headline begins: `4 blocks of width 64`."""
    return singular(_say("<depth> blocks of width <width>", recipe))


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


def _applies(sentence: str, values: Values) -> bool:
    """Not every codec has a palette, nor every objective a mask, nor every run a limit."""
    if "<codec.source>" in sentence:
        return "codec.source" in values
    if "<objective.mask>" in sentence:
        return "objective.mask.kind" in values
    if "<initial>" in sentence:
        return "initial" in values
    # What most recipes leave as it is goes without saying.
    for path in ("objective.masking", "head", "data.noise"):
        if f"<{path}>" in sentence:
            return values.get(f"{path}.kind") in SAYINGS[path]
    return "<data.limit>" not in sentence or values.get("data.limit") is not None


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
    code, content = _codes(recipe)
    values = flatten(recipe) | {"code": code, "content": content}
    value = values.get(f"{path}.kind", values.get(path))
    saying = SAYINGS.get(path, {}).get(value) if isinstance(value, str | None) else None
    try:
        if saying:
            return _ByPath().vformat(saying, (), values).replace("%", "\u00a0%")
    except (KeyError, ValueError, TypeError):
        pass  # a setting that the saying speaks of is not there, or is no number
    return NEUTRAL.get(path, "{}").replace("{}", _name(value))


def _name(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,}"
    return "(unknown)" if value is None else f"“{value}”"


class _ByPath(Formatter):
    """`{block.heads}` is the value of that path, not an attribute."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        return kwargs[field_name], field_name
