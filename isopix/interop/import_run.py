"""Adopting: somebody else's model becomes a run folder, and every verb serves it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix import __version__
from isopix.codecs.palette import Palette
from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.config import to_dict
from isopix.core.device import runtime_environment
from isopix.data.dataset import DataConfig
from isopix.interop.imported_model import Imported
from isopix.model.network import Network
from isopix.model.spec import ModelSpec
from isopix.recipes.recipe import Recipe
from isopix.storage import checkpoint
from isopix.storage.atomic import write_json
from isopix.storage.log import RunLog
from isopix.storage.run_folder import RunFolder
from isopix.train.config import TrainConfig

ACCOUNTS = "imported"  # the record that says what became of each of their tensors
UNSTATED = "imagenet-1k"  # what the verbs read where nobody states the images: those of all released models


class Adopted(NamedTuple):
    """The run folder, and what was imported into it."""

    run: RunFolder
    imported: Imported


def adopt(read: Callable[[], Imported], out: Path, *, data: str | None, command: list[str]) -> Adopted:
    """A new run folder with one checkpoint, that of the model that `read` imports; `data` names what it was
    trained on, if anybody states it.

    Raises ValueError if the folder is not empty, before anything is read, or if a tensor does not fit, and
    what `read` raises; RuntimeError if the disk is full.
    """
    run = RunFolder.create(out)
    try:
        with run.lock():
            imported = read()
            recipe = recipe_of(imported, data or UNSTATED)
            stated = {"trained_on": data} if data else {}
            facts = {"imported": imported.origin, **stated, "isopix": __version__, "command": command}
            _write(run, imported, recipe, facts)
    except BaseException:
        run.clear_unless_saved()
        raise
    return Adopted(run, imported)


def recipe_of(imported: Imported, data: str) -> Recipe:
    """The settings of an imported model; those of its training that are not known are the defaults."""
    return Recipe(
        name=f"igpt.{imported.depth}x{imported.width}",
        data=DataConfig(source=data, rows=imported.grid.rows, cols=imported.grid.cols),
        model=ModelSpec(
            codec=PaletteSpec(num_colors=len(imported.colours)),
            depth=imported.depth,
            width=imported.width,
            block=imported.block,
        ),
        objective=imported.objective,
        train=TrainConfig(steps=max(1, imported.step), precision="fp32"),
    )


def network_of(imported: Imported, recipe: Recipe) -> Network:
    """The network itself; its weights are the imported tensors. Raises ValueError if one does not fit."""
    codec = Palette(imported.colours, recipe.grid)
    with torch.device("meta"):
        network = recipe.assemble(codec)
    fixed = {f"codec.{name}": tensor for name, tensor in codec.state_dict().items()}
    network.load({**imported.tensors, **fixed})
    return network


def _write(run: RunFolder, imported: Imported, recipe: Recipe, origin: dict[str, Any]) -> None:
    network, surroundings = network_of(imported, recipe), runtime_environment(torch.device("cpu"))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(run.recipe, to_dict(recipe))
    write_json(run.environment, {**surroundings, **origin, "started": when})
    log = RunLog(run.log)
    log.write({"kind": "note", "step": imported.step, "text": f"imported from {imported.origin}"})
    log.close()
    records: dict[str, dict[str, Any]] = {
        "recipe": to_dict(recipe),
        "state": {"step": imported.step, "codec": network.codec.fingerprint(), "data": "not known"},
        "environment": surroundings,
        ACCOUNTS: {**origin, "tensors": [account._asdict() for account in imported.accounts]},
    }
    folder = checkpoint.step_folder(run.checkpoints, imported.step)
    checkpoint.save_checkpoint(folder, {"model": network.tensors()}, records)
