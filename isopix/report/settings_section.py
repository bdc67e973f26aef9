"""The settings of a run by group; a part is shown by its own `label()`."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Protocol, runtime_checkable

from isopix.core.config import flatten
from isopix.recipes.recipe import Recipe
from isopix.report.load_run import RunRecord
from isopix.report.metrics import epochs, format_epochs, images_seen, num_steps
from isopix.report.section import Panel, Section, Settings

GROUPS = {
    "model": (
        *("codec", "stem", "positions", "class_token", "block", "depth", "width"),
        *("share_blocks", "head", "initial"),
    ),
    "objective": ("objective",),
    "data": ("data",),
    "train": (
        *("steps", "batch", "accumulate", "optimiser", "schedule", "precision", "compile", "seed"),
        *("log_every", "evaluate_every", "evaluate_images", "test_images", "neighbours"),
        *("checkpoint_every", "probe_every"),
    ),
    "finetune": ("classify",),
}
# What the files of an imported model state; the rest of its recipe is filled in by us.
IMPORTED = ("data.rows", "data.cols", "codec.num_colors", "block.", "depth", "width", "objective.kind")
STATED = ("codec", "block", "depth", "width", "objective", "rows", "cols")


@runtime_checkable
class HasLabel(Protocol):
    """A part of a recipe."""

    def label(self) -> str:
        """Return a short name with the settings."""


def settings_section(run: RunRecord) -> Section:
    """Return the settings by group, and all of recipe.json on request."""
    flat = flatten(run.settings)
    shown = {name: each for name, each in flat.items() if not run.imported_from or name.startswith(IMPORTED)}
    everything = [(name, "–" if value is None else str(value)) for name, value in shown.items()]
    groups = [Settings(name, items) for name, items in settings(run).items()]
    return Section(
        "Settings",
        [Panel(settings=groups), Panel(settings=[Settings("Every setting", everything, folded=True)])],
        "grid",
    )


def settings(run: RunRecord) -> dict[str, list[tuple[str, str]]]:
    """Return (setting, value) pairs by group; of an imported model those that its files state."""
    if run.recipe is None:
        return {}
    groups = {name: list(_group(run.recipe, names)) for name, names in GROUPS.items()}
    if run.imported_from:
        step, data = run.weights.step if run.weights else 0, run.environment.get("trained_on")
        groups = {group: [each for each in found if each[0] in STATED] for group, found in groups.items()}
        groups["train"] = [
            ("imported from", run.imported_from),
            ("step", f"{step:,}" if step else "not known"),
            ("trained on", f"{data} (as stated at import)" if data else "not known"),
        ]
    else:
        groups["train"] += _progress(run)
    return {name: found for name, found in groups.items() if found}


def _progress(run: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield what the run made of its settings: where it began and how long it is."""
    if origin := run.environment.get("pretrained"):
        yield "initialized from", f"{PurePath(str(origin.get('run'))).name}, step {origin.get('step'):,}"
    turns = epochs(run)
    if num_steps(run):
        passes = "" if turns is None else f" ({format_epochs(turns)} epochs)"
        yield "images seen", f"{images_seen(run):,}{passes}"


def _group(recipe: Recipe, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        part = getattr(recipe, name)
        if isinstance(part, HasLabel):
            yield ("loss" if name == "classify" else name), part.label()
        elif not dataclasses.is_dataclass(part):
            yield from _value(name, part)
        if name in ("objective", "data", "classify") and part is not None:
            yield from _fields(recipe, part)


def _fields(recipe: Recipe, part: Any) -> Iterator[tuple[str, str]]:
    total = recipe.grid.positions
    for each in dataclasses.fields(part):
        value = getattr(part, each.name)
        if each.name == "mask":  # on average, if the number is random
            count = value.touched(total, recipe.model.codec.placeholder(recipe.grid).codes) * total
            yield each.name, f"{value.label()} ({count:,.4g} of {total:,} positions)"
        elif each.name == "hide" and value:
            yield each.name, f"{value:g} ({round(value * total):,} of {total:,} positions)"
        elif isinstance(value, HasLabel):
            yield each.name, value.label()
        elif each.name != "kind":
            yield from _value(each.name, value)


def _value(name: str, value: object) -> Iterator[tuple[str, str]]:
    if value is not None:
        yield name, f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def anonymous(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same settings with file paths cut to their last part."""
    return {
        key: anonymous(value)
        if isinstance(value, Mapping)
        else last_part(value)
        if key == "source"
        else value
        for key, value in settings.items()
    }


def last_part(value: Any) -> Any:
    """Return the name of an absolute path, alone or as `setting=path`; any other value as it is."""
    if not isinstance(value, str):
        return value
    before, equals, path = value.rpartition("=")
    return before + equals + (PurePath(path).name if path.startswith("/") else path)
