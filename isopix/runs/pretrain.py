"""Runs: a recipe and its images become a run folder, and an interrupted run goes on."""

import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.core.device import environment
from isopix.core.overrides import flatten
from isopix.data.dataset import ImageSet
from isopix.data.dataset import load as load_images
from isopix.model.network import Network
from isopix.recipes.recipe import Recipe
from isopix.runs import along
from isopix.runs.load import find, recipe_of, revive
from isopix.runs.session import Outcome, Session, Watch
from isopix.storage.atomic import write_json
from isopix.storage.checkpoint import Checkpoint
from isopix.storage.provenance import surroundings
from isopix.storage.run_folder import RunFolder
from isopix.train.train_step import require_compiler

__all__ = ["Origin", "Outcome", "Watch", "anchored", "resume", "start"]

STEP = "the step of the weights that are kept"  # what validation chooses while fine-tuning


class Origin(NamedTuple):
    """A network that is trained already, and what the run folder shall tell of it."""

    network: Network
    facts: dict[str, Any]
    notes: tuple[str, ...] = ()  # for its log


def start(
    recipe: Recipe,
    out: Path,
    *,
    device: torch.device,
    watch: Watch,
    origin: Origin | None = None,
    beside: Collection[str] = (),
) -> Outcome:
    """Train a recipe from its first step in the new run folder `out`; from the weights of `origin`, if given.
    Files of the names `beside` may be there already.

    Raises ValueError for settings, data or folders that cannot be, before anything is trained; RuntimeError
    if the disk is full or the loss stops being a number.
    """
    if recipe.train.compile:
        require_compiler()
    run = RunFolder.create(out, beside)
    try:
        data = load_images(recipe.data, seed=recipe.train.seed)
        if recipe.finetune is not None:
            data.require_labels("finetune")
            if recipe.finetune.chooses:
                require_validation(recipe, data, STEP)
        if recipe.train.probe_every:
            along.require(data)
        if origin is None:
            origin = _from_scratch(recipe, data, watch)
        session = Session(run, anchored(recipe), origin.network, data, device)
        with run.lock():
            write_json(run.recipe, to_dict(anchored(recipe)))
            write_json(run.environment, {**surroundings(device), **_facts(session), **origin.facts})
            if data.report:
                shutil.copy(data.report, run.path / "bad-files.csv")
            return session.go(watch, None, (*origin.notes, *_unjudged(recipe, data)))
    except BaseException:
        run.clear_unless_saved()
        raise


def resume(out: Path, *, device: torch.device, watch: Watch) -> Outcome:
    """Go on from the newest intact checkpoint; on a CPU with the same threads and versions, bit for bit.

    Raises ValueError if there is nothing to go on with or the data has changed, and what `start` raises.
    """
    run = RunFolder.open(out)
    with run.lock():
        found, passed_over = find(out)
        recipe = recipe_of(found)
        if recipe.train.compile:
            require_compiler()
        if "optimizer" not in found.tensors:
            raise ValueError(
                f"{out} holds a model without the state of its optimizer, as an imported one has none; "
                "it can be probed, sampled and reported, but its training cannot go on"
            )
        data = load_images(recipe.data, seed=recipe.train.seed)
        if data.fingerprint != found.records["state"]["data"]:
            raise ValueError(
                f"the images of '{recipe.data.source}' are not those that run {out} started with"
            )
        session = Session(run, recipe, revive(found), data, device)
        notes = [f"passed over: {reason}" for reason in passed_over]
        if found.records["state"]["step"] < recipe.train.steps:
            notes += _differences(found, device)
        return session.go(watch, found, notes)


def require_validation(recipe: Recipe, data: ImageSet, choice: str) -> None:
    """Raises ValueError unless the run reads validation images, by which `choice` can be made."""
    data.require_validation(choice)
    require_evaluations(recipe, choice)


def require_evaluations(recipe: Recipe, choice: str) -> None:
    """Raises ValueError for settings under which no validation image is read."""
    if recipe.train.evaluate_images == 0:
        raise ValueError(f"{choice} is chosen by validation images; it needs evaluate_images above 0")


def refuse_other_settings(whose: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises ValueError if one that both have differs; `whose` are those of `then`."""
    before, after = flatten(then), flatten(now)
    for path in (path for path in after if path in before):  # a later version may have settings of its own
        if before[path] != after[path]:
            raise ValueError(
                f"{whose} has {path}={before[path]}, and {after[path]} is asked for; choose another --out"
            )


def anchored(recipe: Recipe) -> Recipe:
    """The recipe with the paths of its files made absolute, so that it means the same from every folder."""
    data = Path(recipe.data.source)
    if data.exists():
        recipe = replace(recipe, data=replace(recipe.data, source=str(data.resolve())))
    return recipe.updated(
        codec=recipe.model.codec.anchored(),
    )


def _from_scratch(recipe: Recipe, data: ImageSet, watch: Watch) -> Origin:
    """The network before its first step, with its codec, fitted to the images if need be."""
    if recipe.model.codec.task:
        text = f"{recipe.model.codec.task} to {len(data.train):,} training images"
        watch.record({"kind": "note", "step": 0, "text": text})
    codec = recipe.model.codec.fit(data.train.images, recipe.grid, recipe.train.seed)
    return Origin(recipe.build(codec), recipe.model.codec.origin())


def _facts(session: Session) -> dict[str, Any]:
    """Which images, how many in each split, and the most frequent class's share of those that are tested; of
    fine-tuning, how many parameters it trains.
    """
    data = session.data
    counts = {"train": len(data.train), "validation": len(data.validation), "test": len(data.test)}
    told: dict[str, Any] = {"data": data.fingerprint, "images": counts}
    labels = data.test.first(session.recipe.train.num_test_images).labels
    if labels is not None and len(labels):
        told["majority"] = labels.bincount().max().item() / len(labels)
    if session.classifier is not None:
        told["trained_parameters"] = session.parameters
    return told


def _unjudged(recipe: Recipe, data: ImageSet) -> list[str]:
    """A line for a run that learns classes and has no test images to show it by."""
    if recipe.finetune is None or not recipe.finetune.classifies or len(data.test):
        return []
    blind = not len(data.validation)
    kind, splits = ("", "validation and no test") if blind else ("test ", "test")
    return [
        f"no {kind}accuracy will be told: data set '{data.name}' has no {splits} images; it needs "
        f"data.holdout above 0, or {'such splits' if blind else 'a test split'} of its own"
    ]


def _differences(found: Checkpoint, device: torch.device) -> list[str]:
    """A line for each thing that keeps a resume from being bit for bit."""
    then, now = found.records["environment"], environment(device)
    return [
        f"resumed with {name} {now[name]}, the run had {then.get(name)}: weights may differ in the last bits"
        for name in ("device", "threads", "torch", "pillow")
        if then.get(name) != now[name]
    ]
