"""A Hugging Face model card in Markdown; every number is from the run folder."""

import json
import math
import re
import shlex
from pathlib import PurePath
from typing import Literal

from isopix.core.text import Table
from isopix.recipes.recipe import Recipe
from isopix.reporting.run_record import RunRecord, public
from isopix.reporting.run_sections import grouped_settings
from isopix.reporting.section import render
from isopix.reporting.training import (
    baseline_losses,
    finetune_accuracy,
    held_out_loss,
    loss_unit,
    uniform_classes,
)

VERSIONS = ("isopix", "torch", "python", "device")  # of environment.json

Library = Literal["transformers", "isopix"]


def model_card(run: RunRecord, *, name: str, library: Library) -> str:
    """Return the card of a run's model, which a library loads as `name`, of the files that are there."""
    recipe = run.recipe
    if recipe is None:
        raise ValueError(f"{run.path} has no recipe that can be read, so it has no model card")
    loss, classes = held_out_loss(run) if run.predicts_codes else None, uniform_classes(run)
    uniform = {"uniform prediction": math.log(classes)} if classes else {}
    settings = [pair for group in grouped_settings(run).values() for pair in group]
    commands = [run.environment.get("command"), run.probe and public(run.probe.call["command"])]
    text = render(
        "card.md.j2",
        run=run,
        recipe=recipe,
        library=library,
        usage=_usage(recipe) if library == "transformers" else "isopix",
        name=json.dumps(name),
        title=PurePath(name).name,
        tags=[tag for tag in recipe.model.codec.hub_tags if tag in recipe.model.block.hub_tags],
        settings=Table("", ["setting", "value"], settings).markdown(),
        accuracy=finetune_accuracy(run),
        trained=run.environment.get("trained_parameters"),
        loss=loss,
        bits=loss and loss.nats / math.log(2),
        unit=loss_unit(run),
        baselines=uniform | baseline_losses(run),
        layer=run.probe.best.layer if run.probe else recipe.model.depth // 2,
        values=recipe.model.codec.placeholder(recipe.grid).vocab_size,
        commands=list(dict.fromkeys(shlex.join(words) for words in commands if words)),
        versions=[f"{each} {run.environment[each]}" for each in VERSIONS if run.environment.get(each)],
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _usage(recipe: Recipe) -> str:
    if recipe.objective.can_sample:
        return "imagegpt"
    if recipe.model.codec.patch_size > 1:
        return "classifier" if recipe.finetune and recipe.finetune.has_class_loss else "vit"
    raise ValueError(
        "transformers supports autoregressive models and Vision Transformers only; the objective of this "
        f"one is {recipe.objective.label()}"
    )
