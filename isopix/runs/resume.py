"""Resuming an interrupted run from its newest intact checkpoint, or starting it if there is none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from isopix.core.device import check_compiler
from isopix.data.dataset import load_dataset
from isopix.recipes.recipe import Recipe
from isopix.runs.checkpoint_content import plugin_changes, recipe_of
from isopix.runs.checkpoint_writer import NUM_CHECKPOINTS
from isopix.runs.load import build_network, find_valid, is_valid
from isopix.runs.log_notes import log_notes
from isopix.runs.observer import RunObserver, RunStatus
from isopix.runs.origin import Origin
from isopix.runs.pretrain import InitialWeights, train_recipe
from isopix.runs.rank_folder import existing_run
from isopix.runs.seen import leave_out_seen, load_seen
from isopix.runs.training import TrainingRun
from isopix.storage.checkpoint import Checkpoint, prune
from isopix.storage.run_folder import RunFolder
from isopix.train.config import TrainConfig


def train_or_resume(
    recipe: Recipe,
    out: Path,
    *,
    device: torch.device,
    observer: RunObserver,
    initial: InitialWeights | None = None,
) -> RunStatus:
    """Train a recipe in the run folder `out`, or resume the run that is there; after an interruption at any
    moment the same call continues. Raises what `train_recipe` and `resume_run` raise.
    """
    if RunFolder(out).has_checkpoints:
        return resume_run(out, device=device, observer=observer)
    return train_recipe(recipe, out, device=device, observer=observer, initial=initial)


def resume_run(
    out: Path,
    *,
    device: torch.device,
    observer: RunObserver,
) -> RunStatus:
    """Continue a run; on a CPU with the same threads and versions the weights are bit for bit those of a run
    without a stop.

    Raises ValueError if there is no checkpoint, its plugins are not loaded or the data has changed, and what
    `pretrain` raises.
    """
    with existing_run(out) as folder:
        found, damaged = find_valid(out)
        recipe = recipe_of(found)
        if recipe.train.compile:
            check_compiler()
        if "optimizer" not in found.tensors:
            raise ValueError(
                f"{out} is a model without optimizer state, such as an imported one; it can be probed, "
                "sampled and reported, but its training cannot be resumed"
            )
        data, state = load_dataset(recipe.data), found.records["state"]
        if data.fingerprint != state["data"]:
            raise ValueError(f"the images of '{recipe.data.source}' have changed since run {out} was started")
        data, _ = leave_out_seen(data, load_seen(out, state), known=state.get("seen_known", True))
        prune(folder.checkpoints, NUM_CHECKPOINTS, lambda each: each == found.path or is_valid(each))
        notes = [f"skipped damaged checkpoint: {error}" for error in damaged]
        notes += log_notes(folder.log, recipe.train, state["step"])
        if state["step"] < recipe.train.steps:
            notes += [*plugin_changes(found), *_differences(found, recipe.train, device)]
            notes += recipe.train.precision_notes(device)
        training = TrainingRun(
            folder,
            recipe,
            build_network(found),
            data,
            device,
            _origin(state),
        )
        return training.run(observer, found, notes, rejected=[error.path for error in damaged])


def _origin(state: Mapping[str, Any]) -> Origin:
    """Return what a checkpoint says of the run's start; an earlier version says less."""
    labels, decoder = state.get("labels_seen"), state.get("decoder_valid", True)
    if "origin" not in state:
        return Origin(labels, labels, decoder)
    return Origin(*(state["origin"][name] for name in Origin._fields))


def _differences(found: Checkpoint, config: TrainConfig, device: torch.device) -> list[str]:
    """Return a note for each difference that keeps the resumed run from being bit for bit the same."""
    then, now = found.records.get("environment", {}), config.environment(device)
    then = {"precision": config.precision or "bf16", **then}  # of runs before the record had it
    effects = dict.fromkeys(("device", "threads", "torch", "pillow"), "weights may differ in the last bits")
    effects["precision"] = "weights differ by rounding"
    return [
        f"resumed with {name} {now[name]}, the run had {then.get(name)}: {effect}"
        for name, effect in effects.items()
        if then.get(name) != now[name]
    ]
