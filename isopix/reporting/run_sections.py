"""What a run was made of and with: its images, palette, settings, environment, and the commands."""

import dataclasses
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from isopix.core.overrides import flatten
from isopix.core.registry import Part
from isopix.core.text import Table
from isopix.plots.images import Group, enlarge, fit_scale, image_grid, png_bytes, sample_grid
from isopix.plots.palette import arrange_colors, oklab
from isopix.reporting.run_record import DataSample, RunRecord, public
from isopix.reporting.section import Chart, Panel, Section, Settings, data_url, image_tag, percent
from isopix.reporting.training import images_seen, num_steps

GROUPS = ("model", "objective", "data", "train", "finetune")
# What the files of an imported model state; the rest of its recipe is filled in by us.
STATED = ("codec", "block", "depth", "width", "objective", "rows", "cols")
MAX_COLUMNS = 12  # of images; with more classes, images are not grouped by class
ENVIRONMENT_NAMES = {"data": "data (hash of images and splits)"}
UNSHOWN = ("command", "folder", "majority", "images")


def data_section(run: RunRecord) -> Section | None:
    """Return training images and the number of images of each class; None for a run without them."""
    data = run.data
    if data is None or not len(data.images):
        return None
    grouped = 1 < len(data.classes) <= MAX_COLUMNS and -1 not in data.labels
    picture = _by_class(data) if grouped else sample_grid(data.images)
    source = "" if run.recipe is None else f" of {run.recipe.data.source.rpartition('/')[2]}"
    caption = (
        f"{len(data.images)} training images{source}{', by class' if grouped else ''}, at the resolution of"
        " the model, before augmentation and codec."
    )
    tag = image_tag(png_bytes(picture), f"Training images. {caption}")
    sums = map(sum, zip(*data.counts, strict=True))
    counts = [*zip(data.classes, data.counts, strict=True), ("all", sums)]
    rows = [(name, *map("{:,}".format, each)) for name, each in counts]
    title = f"Images of {len(data.classes):,} classes"
    tables = [Table(title, ["class", "training", "validation", "test"], rows)] if len(rows) > 2 else []
    return Section("Data", [Panel([Chart(tag, caption, "pixels")], tables)])


def _by_class(data: DataSample) -> Image.Image:
    present = sorted(set(data.labels))
    columns = min(MAX_COLUMNS // len(present), max(map(data.labels.count, present)))
    scale, groups = fit_scale(data.images, columns * len(present)), []
    for label in present:
        places = [i for i, each in enumerate(data.labels) if each == label]
        tiles = enlarge(data.images[places], scale)
        groups.append(Group(data.classes[label], [tiles[i::columns] for i in range(columns)]))
    return image_grid(groups, blocks=1)


def palette_section(run: RunRecord) -> Section | None:
    """Return the colors of a run's palette; None for a codec without one, and before the first checkpoint."""
    if run.weights is None or run.weights.colors is None:
        return None
    colors = run.weights.colors
    caption = f"All {len(colors):,} colors of the palette by hue and lightness."
    tag = image_tag(_png(arrange_colors(colors).byte()), caption, scale=1.0)
    return Section("Palette", [Panel([Chart(tag, caption, "pixels palette")])])


def color_strip(colors: Float[Tensor, "K 3"]) -> str:
    """Return all colors in one line of pixels, from dark to light, as a data URL."""
    return data_url(_png(colors[oklab(colors)[:, 0].argsort()].round().byte()[None]))


def _png(pixels: UInt8[Tensor, "rows cols 3"]) -> bytes:
    return png_bytes(Image.fromarray(pixels.numpy()))


def settings_section(run: RunRecord) -> Section:
    """Return the settings by group, a part by its own `label()`, and all of recipe.json on request."""
    panels = [Panel(settings=[Settings(name, items) for name, items in grouped_settings(run).items()])]
    if not run.imported_from:
        everything = [(name, _shown(value)) for name, value in flatten(run.settings).items()]
        panels.append(Panel(settings=[Settings("Every setting", everything, folded=True)]))
    return Section("Settings", panels, "grid")


def differences_section(runs: Mapping[str, RunRecord]) -> Section:
    """Return the settings in which runs differ, a column for each run."""
    flat = [flatten(run.settings) for run in runs.values()]
    names = dict.fromkeys(name for settings in flat for name in settings if name != "name")
    lines = [[name, *(_shown(settings.get(name)) for settings in flat)] for name in names]
    rows = [line for line in lines if len(set(line[1:])) > 1]
    if not rows:
        return Section("Differences", [Panel(notes=["All settings of these runs are equal."])])
    return Section("Differences", [Panel(tables=[Table("", ["setting", *runs], rows)])], css="wrapped")


def _shown(value: object) -> str:
    return "–" if value is None else str(value)


def grouped_settings(run: RunRecord) -> dict[str, list[tuple[str, str]]]:
    """Return (setting, value) pairs by group; of an imported model those that its files state."""
    if run.recipe is None:
        return {}
    groups = {name: list(_group(getattr(run.recipe, name), name)) for name in GROUPS}
    if run.imported_from:
        step, data = run.weights.step if run.weights else 0, run.environment.get("trained_on")
        groups = {group: [each for each in found if each[0] in STATED] for group, found in groups.items()}
        groups["train"] = [
            ("imported from", run.imported_from),
            ("step", f"{step:,}" if step else "not known"),
            ("trained on", f"{data} (as stated at import)" if data else "not known"),
        ]
    elif origin := run.environment.get("pretrained"):
        groups["train"].append(("initialized from", f"{origin['run']}, step {origin['step']:,}"))
    if num_steps(run) and not run.imported_from:
        groups["train"].append(("images seen", f"{images_seen(run):,}"))
    return {name: found for name, found in groups.items() if found}


def _group(group: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(group, Part):
        yield name, group.label()
    for each in dataclasses.fields(group) if group else ():
        if (value := getattr(group, each.name)) not in (None, ()):
            yield each.name, _text(value)


def environment_section(run: RunRecord) -> Section:
    """Return versions and device of a run, notes of its training, and files that could not be read."""
    shown = {key: value for key, value in run.environment.items() if key not in UNSHOWN}
    items = [(ENVIRONMENT_NAMES.get(key, key), _text(value)) for key, value in shown.items()]
    if (majority := run.environment.get("majority")) is not None:
        items.append(("majority class of train", f"{percent(majority)} of the test images"))
    notes = [] if items else ["No environment.json in this run."]
    notes += [str(each.get("text", "")) for each in run.log if each["kind"] == "note"]
    if run.problems:
        notes += ["Files that could not be read:", *run.problems]
    return Section("Environment", [Panel(settings=[Settings("", items)], notes=notes)])


def commands_section(run: RunRecord) -> Section:
    """Return the commands of all that is shown, each once and under the name of its working directory."""
    commit, palette, here = run.environment.get("commit"), run.environment.get("palette"), None
    lines = [f"# isopix at commit {commit}"] if commit else []
    lines += [f"# palette {palette.get('file')}: {palette.get('source')}"] if palette else []
    made = [run.environment, *(public(each.call) for each in run.results)]
    calls = dict.fromkeys(
        (_text(each["command"]), each.get("folder")) for each in made if each.get("command")
    )
    for command, folder in calls:
        if folder and folder != here:
            here = folder
            lines.append(f"cd {shlex.quote(folder)}")
        lines.append(command)
    return Section("Reproduce", [Panel(code="\n".join(lines) or "The command of this run was not recorded.")])


def _text(value: object) -> str:
    if isinstance(value, Part):
        return value.label()
    if isinstance(value, tuple):
        return "; ".join(map(_text, value))
    if isinstance(value, list):
        return shlex.join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "not recorded" if value is None else str(value)
