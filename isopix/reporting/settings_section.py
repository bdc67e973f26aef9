"""The settings of a run by group; a part is shown by its own `label()`."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from isopix.core.overrides import flatten
from isopix.core.registry import Part
from isopix.recipes.recipe import Recipe
from isopix.reporting.metrics import epochs, format_epochs, images_seen, num_steps
from isopix.reporting.run_record import RunRecord
from isopix.reporting.section import Panel, Row, Section, Settings, Table

GROUPS = ("model", "objective", "data", "train", "finetune")
# What the files of an imported model state; the rest of its recipe is filled in by us.
IMPORTED = (
    *("data.rows", "data.cols", "model.codec.num_colors", "model.block.", "model.depth", "model.width"),
    "objective.kind",
)
STATED = ("codec", "block", "depth", "width", "objective", "rows", "cols")
PATHS = ("source", "palette_file", "file", "run")  # settings and records that may be paths


def settings_section(run: RunRecord) -> Section:
    """Return the settings by group, and all of recipe.json on request."""
    flat = flatten(without_private_paths(run.settings))
    shown = {name: each for name, each in flat.items() if not run.imported_from or name.startswith(IMPORTED)}
    everything = [(name, "–" if value is None else str(value)) for name, value in shown.items()]
    groups = [Settings(name, items) for name, items in grouped_settings(run).items()]
    return Section(
        "Settings",
        [Panel(settings=groups), Panel(settings=[Settings("Every setting", everything, folded=True)])],
        "grid",
    )


def differences_section(runs: Mapping[str, RunRecord]) -> Section:
    """Return the settings in which runs differ, a column for each run."""
    flat = [flatten(without_private_paths(run.settings)) for run in runs.values()]
    names = dict.fromkeys(name for settings in flat for name in settings if name != "name")
    lines = {
        name: ["–" if (value := each.get(name)) is None else str(value) for each in flat]
        for name in sorted(names, key=_group_number)
    }
    rows = [Row([name, *values]) for name, values in lines.items() if len(set(values)) > 1]
    if not rows:
        return Section("Differences", [Panel(notes=["All settings of these runs are equal."])])
    columns = [("setting", ""), *((name, "") for name in runs)]
    return Section("Differences", [Panel(tables=[Table(columns, rows, "wrapped")])])


def _group_number(setting: str) -> int:
    group = setting.partition(".")[0]
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)


def grouped_settings(run: RunRecord) -> dict[str, list[tuple[str, str]]]:
    """Return (setting, value) pairs by group; of an imported model those that its files state."""
    if run.recipe is None:
        return {}
    groups = {name: list(_group(run.recipe, name)) for name in GROUPS}
    if run.imported_from:
        step, data = run.weights.step if run.weights else 0, last_path_part(run.environment.get("trained_on"))
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


def _group(recipe: Recipe, name: str) -> Iterator[tuple[str, str]]:
    group = getattr(recipe, name)
    if group is None:
        return
    if name in ("objective", "finetune"):
        yield ("loss" if name == "finetune" else name), group.label()
    total, codec = recipe.grid.positions, recipe.model.codec.placeholder(recipe.grid)
    for each in dataclasses.fields(group):
        value = getattr(group, each.name)
        if each.name == "mask":  # on average, if the number is random
            count = value.expected_fraction(total, codec.num_codes) * total
            yield each.name, f"{value.label()} ({count:,.4g} of {total:,} positions)"
        elif each.name == "mask_ratio" and value:
            yield each.name, f"{value:g} ({round(value * total):,} of {total:,} positions)"
        elif value is not None and value != ():
            yield each.name, _text(last_path_part(value) if each.name in PATHS else value)


def _text(value: object) -> str:
    """Return a part by its label, and a number with thousands separated."""
    if isinstance(value, Part):
        return value.label()
    if isinstance(value, tuple):
        return "; ".join(map(_text, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def without_private_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same settings with file paths cut to their last part."""
    return {
        key: without_private_paths(value)
        if isinstance(value, Mapping)
        else last_path_part(value)
        if key in PATHS
        else value
        for key, value in settings.items()
    }


def last_path_part(value: Any) -> Any:
    """Return the name of an absolute path, alone or as `setting=path`; any other value as it is."""
    if not isinstance(value, str):
        return value
    before, equals, path = value.rpartition("=")
    return before + equals + (PurePath(path).name if path.startswith("/") else path)
