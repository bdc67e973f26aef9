"""A Hugging Face model card in Markdown; every number is from the run folder."""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Literal

from isopix.core.config import from_dict
from isopix.core.text import printable_lines
from isopix.recipes.recipe import Recipe
from isopix.reporting.baselines import BaselineRow, baseline_rows
from isopix.reporting.metrics import (
    baseline_losses,
    finetune_accuracy,
    held_out_loss,
    loss_unit,
    uniform_classes,
    vocab_size,
)
from isopix.reporting.probe_section import probe_settings
from isopix.reporting.run_record import RunRecord
from isopix.reporting.section import percent
from isopix.reporting.settings_section import grouped_settings, last_path_part, without_private_paths
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
    run = _public(run, recipe)
    sections = {
        "Model": _description(run),
        "Results": _results(run, name),
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
    rows = [(name, value) for group in grouped_settings(run).values() for name, value in group]
    yield _table(["setting", "value"], ([_escape(name), _escape(value)] for name, value in rows))
    if run.weights:
        trained = run.environment.get("trained_parameters")
        part = f", {trained:,} of them trained" if trained else ""
        yield f"{run.weights.parameters:,} parameters{part}, after step {run.weights.step:,}."


def _results(run: RunRecord, name: str) -> Iterator[str]:
    if found := finetune_accuracy(run):
        bounds = f"{percent(found.low)} to {percent(found.high)}"
        yield f"Test accuracy: **{percent(found.accuracy)}** ({bounds}, 95 %), {found.images_text} images."
    loss, classes = held_out_loss(run), uniform_classes(run)
    if loss and run.predicts_codes:
        uniform = f" Uniform prediction: {math.log(classes):.3f}." if classes else ""
        yield (
            f"{loss.split.capitalize()} loss: **{loss.nats:.3f} nats per {loss_unit(run)}** "
            f"({loss.bits:.3f} bits), {_escape(loss.where)}.{uniform}"
        )
        if others := baseline_losses(run):
            losses = ", ".join(f"{_escape(name)} {nats:.3f}" for name, nats in others.nats.items())
            yield f"Learning-free baselines, {others.images:,} {others.split} images: {losses} nats."
    if run.probe is not None:
        report = run.probe.report
        data = _escape(run.probe.data) or "the run's own images"
        yield (
            f"Probe on {data} ({_escape(probe_settings(report))}): test accuracy of the layer chosen on "
            "validation images, its 95 % interval, and baselines:"
        )
        scored = [row for row in baseline_rows({PurePath(name).name: run}) if row.accuracy is not None]
        yield _table(["features", "layer", "test accuracy", "95 % interval"], map(_cells, scored))
        yield "By layer (0 is the embedding):"
        layers = report.tables()[0]
        rows = [[_escape(str(cell)) for cell in row[:2]] for row in layers.rows]
        yield _table(list(layers.columns[:2]), rows)


def _cells(row: BaselineRow) -> list[str]:
    assert row.accuracy is not None
    bounds = "" if row.low is None or row.high is None else f"{percent(row.low)} to {percent(row.high)}"
    name = f"{row.name}, {row.description}" if row.kind == "shared" else row.name
    return [_escape(name), "" if row.layer is None else str(row.layer), percent(row.accuracy), bounds]


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
    layer, data = _layer(run, recipe), recipe.data
    call = "nats = model.nll(images)" if run.predicts_codes else "classes = model.predict(images)"
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
    return recipe.model.depth // 2 if run.probe is None else run.probe.report.network.best.layer


def _limitations(run: RunRecord, recipe: Recipe, library: Library) -> Iterator[str]:
    resizing = {
        "isopix": "Images of another size are cropped and resized.",
        "transformers": "Crop images of another aspect ratio first.",
    }
    yield (
        f"Input: {recipe.data.rows} × {recipe.data.cols} pixels, {recipe.model.codec.label()} "
        f"({vocab_size(run):,} values per code). {resizing[library]}"
    )
    if run.imported_from:
        yield "The training images are not known."
    else:
        yield f"Training images: {_escape(recipe.data.source)}. All numbers are of one run with one seed."


def _training(run: RunRecord) -> Iterator[str]:
    made = [run.environment.get("command"), *(probe.command for probe in run.probes)]
    lines = dict.fromkeys(
        shlex.join(last_path_part(str(word)) for word in command) for command in made if command
    )
    if lines:
        yield "```sh\n" + "\n".join(lines) + "\n```"
    known = [name for name in VERSIONS if run.environment.get(name) is not None]
    if known:
        yield f"{', '.join(f'{name} {_escape(str(run.environment[name]))}' for name in known)}."
    if run.problems:
        yield f"Files that could not be read: {_escape('; '.join(run.problems))}."


def _public(run: RunRecord, recipe: Recipe) -> RunRecord:
    """Return the run without the folders that its files lie in."""
    environment = {**run.environment, "trained_on": last_path_part(run.environment.get("trained_on"))}
    if origin := run.environment.get("pretrained"):
        environment["pretrained"] = {**origin, "run": PurePath(str(origin.get("run"))).name}
    return replace(
        run,
        recipe=recipe,
        environment=environment,
        probes=[replace(probe, data=last_path_part(probe.data)) for probe in run.probes],
        verifications=[replace(each, data=last_path_part(each.data)) for each in run.verifications],
        problems=[each.split(":")[0] for each in run.problems],
    )


def _escape(text: str) -> str:
    """Return text in one line, without Markdown and HTML markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", re.sub(r"\s*[\r\n]\s*", " ", text))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
