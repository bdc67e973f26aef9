"""Write an imported model as a run folder, which every command reads."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.core.device import runtime_environment
from isopix.core.version import __version__
from isopix.interop.imported_model import ImportedModel
from isopix.recipes.recipe import Recipe
from isopix.storage import checkpoint
from isopix.storage.atomic import write_json
from isopix.storage.log import RunLog
from isopix.storage.run_folder import RunFolder
from isopix.storage.run_start import start_run

TENSOR_REPORT = "imported"  # the record of what became of each source tensor
DEFAULT_DATA = "imagenet-1k"  # of all released models; read where the dataset is not stated


class ImportedRun(NamedTuple):
    """A run folder and the model imported into it."""

    run: RunFolder
    imported: ImportedModel


def import_run(
    read: Callable[[], ImportedModel], out: Path, *, data: str | None, command: list[str]
) -> ImportedRun:
    """Create a run folder with one checkpoint, the model that `read` returns; `data` names the dataset that
    it was trained on, if known.

    Raises ValueError if the folder is not empty, before anything is read, or if a tensor does not fit, and
    what `read` raises; RuntimeError if the disk is full.
    """
    with start_run(out) as run:
        imported = read()
        recipe = imported_recipe(imported, data or DEFAULT_DATA)
        trained_on = {"trained_on": data} if data else {}
        origin = {"imported": imported.origin, **trained_on, "isopix": __version__, "command": command}
        _write(run, imported, recipe, origin)
    return ImportedRun(run, imported)


def imported_recipe(imported: ImportedModel, data: str) -> Recipe:
    """Return the recipe of an imported model, with the dataset that it was trained on."""
    recipe = imported.recipe
    return recipe.updated(data=replace(recipe.data, source=data), steps=max(1, imported.step))


def _write(run: RunFolder, imported: ImportedModel, recipe: Recipe, origin: dict[str, Any]) -> None:
    network, details = imported.network(), runtime_environment(torch.device("cpu"))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(run.recipe, to_dict(recipe))
    write_json(run.environment, {**details, **origin, "started": when})
    log = RunLog(run.log)
    log.write({"kind": "note", "step": imported.step, "text": f"imported from {imported.origin}"})
    log.close()
    classes = {"classes": list(imported.classes)} if imported.classes else {}
    records: dict[str, dict[str, Any]] = {
        "recipe": to_dict(recipe),
        "state": {
            "step": imported.step,
            "codec": network.codec.fingerprint(),
            "data": "not known",
            **classes,
        },
        "environment": details,
        TENSOR_REPORT: {**origin, "tensors": [report._asdict() for report in imported.tensor_reports]},
    }
    folder = checkpoint.step_folder(run.checkpoints, imported.step)
    groups = {"model": network.tensors()}
    if imported.classes:
        groups["classifier"] = dict(imported.classifier)
    checkpoint.save_checkpoint(folder, groups, records)
