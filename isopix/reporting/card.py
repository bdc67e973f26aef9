"""A Hugging Face model card in Markdown; every number is from the run folder."""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Literal

from isopix.core.config import from_dict
from isopix.core.text import printable_lines
from isopix.recipes.recipe import Recipe
from isopix.reporting.run_record import RunRecord
from isopix.reporting.run_sections import grouped_settings, last_path_part, without_private_paths
from isopix.reporting.section import percent
from isopix.reporting.training import (
    baseline_losses,
    finetune_accuracy,
    held_out_loss,
    loss_unit,
    uniform_classes,
)
from isopix.reporting.usage import imagegpt_usage, vit_usage

HEAD = """---
library_name: {library}
tags:
{tags}- isopix
- self-supervised
---
"""
VERSIONS = ("isopix", "torch", "python", "device")  # of environment.json
USAGE = """```python
import isopix

model = isopix.load({name})
images = model.preprocess("picture.png")  # uint8 [1 3 {rows} {cols}]
features = model.features(images, layer={layer})
{call}
```"""
RESIZING = {
    "isopix": "Images of another size are cropped and resized.",
    "transformers": "Crop images of another aspect ratio first.",
}

Library = Literal["transformers", "isopix"]


def model_card(run: RunRecord, *, name: str, library: Library) -> str:
    """Return the card of a run's model; what is not in its folder is left out.

    `name` is what the library's loader takes. Absolute paths are cut to their last part, since a card is
    public. Raises ValueError for a recipe that cannot be read, and for an objective that `transformers`
    does not support, if that is the library.
    """
    if run.recipe is None:
        raise ValueError(f"{run.path} has no recipe that can be read, so it has no model card")
    recipe = from_dict(Recipe, without_private_paths(run.settings))
    run = replace(run, recipe=recipe, environment=_public(run.environment))
    sections = {
        "Model": _description(run),
        "Results": _results(run),
        "Usage": _USAGES[library](run, recipe, name),
        "Limitations": _limitations(run, recipe, library),
        "Training": _training(run),
    }
    found = {title: list(parts) for title, parts in sections.items()}
    text = [f"## {title}\n\n" + "\n\n".join(parts) for title, parts in found.items() if parts]
    tags = [tag for tag in recipe.model.codec.hub_tags if tag in recipe.model.block.hub_tags]
    head = HEAD.format(library=library, tags="".join(f"- {tag}\n" for tag in tags))
    card = "\n".join([head, f"# {_escape(PurePath(name).name)}\n", "\n\n".join(text), ""])
    return printable_lines(card)


def _description(run: RunRecord) -> Iterator[str]:
    yield _table(["setting", "value"], [pair for group in grouped_settings(run).values() for pair in group])
    if run.weights:
        trained = run.environment.get("trained_parameters")
        part = f", {trained:,} of them trained" if trained else ""
        yield f"{run.weights.parameters:,} parameters{part}, after step {run.weights.step:,}."


def _results(run: RunRecord) -> Iterator[str]:
    if found := finetune_accuracy(run):
        bounds = f"{percent(found.low)} to {percent(found.high)}"
        count = found.measurement.count if found.measurement else f"{found.images:,} images"
        yield f"Test accuracy: **{percent(found.accuracy)}** ({bounds}, 95 %), {_escape(count)}."
    loss, classes = held_out_loss(run), uniform_classes(run)
    if loss and run.predicts_codes:
        unit = f"nats per {loss_unit(run)}** ({loss.bits:.3f} bits)"
        yield f"{loss.split.capitalize()} loss: **{loss.nats:.3f} {unit}, {_escape(loss.where)}."
        others = {"uniform prediction": math.log(classes), **baseline_losses(run)} if classes else {}
        if others:
            losses = ", ".join(f"{_escape(name)} {nats:.3f}" for name, nats in others.items())
            yield f"Losses without learning: {losses}."
    for table in run.probe.tables() if run.probe else ():
        yield f"{_escape(last_path_part(table.caption))}:"
        yield _table(table.columns, table.rows)


def _with_transformers(run: RunRecord, recipe: Recipe, name: str) -> list[str]:
    if recipe.model.codec.patch_size > 1 and not recipe.objective.can_sample:
        classifies = recipe.finetune is not None and recipe.finetune.has_class_loss
        return vit_usage(name, layer=_layer(run, recipe), classifies=classifies)
    if not recipe.objective.can_sample:
        raise ValueError(
            "transformers supports autoregressive models and Vision Transformers only; the objective of this "
            f"one is {recipe.objective.label()}"
        )
    return imagegpt_usage(name, layer=_layer(run, recipe), depth=recipe.model.depth)


def _with_isopix(run: RunRecord, recipe: Recipe, name: str) -> list[str]:
    data = recipe.data
    call = "nats = model.nll(images)" if run.predicts_codes else "classes = model.predict(images)"
    layer = _layer(run, recipe)
    code = USAGE.format(name=json.dumps(name), layer=layer, rows=data.rows, cols=data.cols, call=call)
    if not run.predicts_codes:
        return [code, "`classes` are the most likely ones; `model.predict_proba` gives all probabilities."]
    verbs = "`sample`" if recipe.objective.can_sample else "`reconstruct`"
    verbs += " and `complete`" if recipe.model.head.categorical else ""
    return [code, f"`nats` is the mean loss per {loss_unit(run)}. See also {verbs} in `help(model)`."]


_USAGES: dict[Library, Callable[[RunRecord, Recipe, str], list[str]]] = {
    "transformers": _with_transformers,
    "isopix": _with_isopix,
}


def _layer(run: RunRecord, recipe: Recipe) -> int:
    """Return the best layer of the primary probe, or else the middle one."""
    return recipe.model.depth // 2 if run.probe is None else run.probe.best.layer


def _limitations(run: RunRecord, recipe: Recipe, library: Library) -> Iterator[str]:
    values = recipe.model.codec.placeholder(recipe.grid).vocab_size
    yield (
        f"Input: {recipe.data.rows} × {recipe.data.cols} pixels, {recipe.model.codec.label()} "
        f"({values:,} values per code). {RESIZING[library]}"
    )
    if run.imported_from:
        yield "The training images are not known."
    else:
        yield f"Training images: {_escape(recipe.data.source)}. All numbers are of one run with one seed."


def _training(run: RunRecord) -> Iterator[str]:
    made = [run.environment.get("command"), run.probe and run.probe.call.get("command")]
    lines = dict.fromkeys(shlex.join(str(last_path_part(word)) for word in words) for words in made if words)
    if lines:
        yield "```sh\n" + "\n".join(lines) + "\n```"
    known = [name for name in VERSIONS if run.environment.get(name) is not None]
    if known:
        yield f"{', '.join(f'{name} {_escape(str(run.environment[name]))}' for name in known)}."


def _public(environment: dict[str, Any]) -> dict[str, Any]:
    """Return the record of the run without the folders that its files lie in."""
    origin = environment.get("pretrained")
    found = {**environment, "trained_on": last_path_part(environment.get("trained_on"))}
    return {**found, "pretrained": {**origin, "run": PurePath(str(origin["run"])).name}} if origin else found


def _escape(text: str) -> str:
    """Return text in one line, without Markdown and HTML markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", re.sub(r"\s*[\r\n]\s*", " ", text))


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [map(_escape, head), ["---"] * len(head), *(map(_escape, map(str, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
