"""The report about runs: what each was made of and with, its results, and the commands."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

from isopix.core.overrides import flatten
from isopix.core.text import Table, count_of, naming
from isopix.generate.sample import generation_verbs
from isopix.plots.images import Group, enlarge, fit_scale, image_grid, png_bytes, sample_grid
from isopix.plots.palette import arrange_colors
from isopix.reporting import training
from isopix.reporting.results import runs_table
from isopix.reporting.run_record import (
    DataSample,
    Kinds,
    RunRecord,
    grouped_settings,
    public,
    read_run,
    repeatable,
    setting_text,
    value_text,
)
from isopix.reporting.section import (
    Article,
    Chart,
    Facts,
    Page,
    Panel,
    Section,
    Settings,
    image_tag,
    join_words,
    missing,
    result_panel,
)
from isopix.reporting.summary import headline, run_rows, summary_section
from isopix.storage.run_folder import RunFolder


def read_runs(runs: Sequence[RunFolder], kinds: Kinds) -> dict[str, RunRecord]:
    """Return all runs by their names, with their results of these kinds."""
    return dict(zip(_names([run.path for run in runs]), (read_run(run, kinds) for run in runs), strict=True))


def _names(paths: Sequence[Path]) -> list[str]:
    for parts in (1, 2):
        names = ["/".join(path.resolve().parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    if len(set(paths)) < len(paths):
        raise ValueError("a report shows each run once; one was given twice")
    return [str(path) for path in paths]


def report_page(runs: Mapping[str, RunRecord]) -> Page:
    """Return the page about these runs."""
    articles = list[Article]()
    for number, (name, run) in enumerate(runs.items()):
        with naming(str(run.path)):
            articles.append(_article(name, number, run, len(runs)))
    command = ["isopix", "report", *(str(run.path) for run in runs.values())]
    if len(runs) == 1:
        [only] = articles
        return Page(only.name, *only.headline, only.sections, command, facts=only.facts)
    table = Panel(tables=[runs_table(run_rows(runs))])
    shared = [summary_section(runs, "together"), Section("Runs and settings", [table], css="wrapped")]
    if curve := training.probe_curve(runs, "along"):
        shared.insert(1, Section("Loss and probe accuracy", [Panel([curve])]))
    return Page(join_words(list(runs)), *headline(runs), shared, command, articles=articles)


def _article(name: str, number: int, run: RunRecord, count: int) -> Article:
    path, curve = shlex.quote(str(run.path)), training.probe_curve({name: run}, f"along-{number}")
    pictures, numbers = _results(run, number)
    sections = [
        *pictures,
        data_section(run),
        training.finetuning_section(run, f"fine-tuning-{number}", path),
        summary_section({name: run}, "") if count == 1 else None,
        *numbers,
        training.loss_section(run, f"loss-{number}", path),
        Section("Loss and probe accuracy", [Panel([curve])]) if curve else None,
        palette_section(run),
        _suggestions(run, path),
        settings_section(run),
        environment_section(run),
        commands_section(run),
    ]
    return Article(name, headline({name: run}), _facts(run), [each for each in sections if each is not None])


def _results(run: RunRecord, number: int) -> tuple[list[Section], list[Section]]:
    """Return the sections of results that are pictures, and those of others, a section for each title."""
    pictures, numbers = list[Section](), list[Section]()
    for place, title in enumerate(dict.fromkeys(each.title for each in run.results)):
        found = [each for each in run.results if each.title == title]
        panels = [result_panel(each, f"result-{number}-{place}-{i}") for i, each in enumerate(found)]
        pictured = all(each.pictures for each in found)
        first = pictured and title != "Neighbors"  # which are long sheets of the data
        (pictures if first else numbers).append(Section(title, panels, "stack" if pictured else "pair"))
    return pictures, numbers


def _suggestions(run: RunRecord, path: str) -> Section | None:
    there = {each.call["verb"] for each in run.results}
    possible = ["probe"] if run.recipe is None or run.recipe.finetune is None else ["evaluate"]
    if run.recipe is not None and run.predicts_codes:
        verbs = generation_verbs(run.recipe.objective, logits=run.recipe.model.head.categorical)
        possible += [*verbs, "score"] if verbs else []
    notes = [missing("", f"isopix {verb} {path}") for verb in possible if verb not in there]
    return Section("Not measured yet", [Panel(notes=notes)]) if notes else None


def _facts(run: RunRecord) -> Facts:
    facts = []
    if recipe := run.recipe:
        facts += [("recipe", recipe.name)] if recipe.name else []
        facts.append(("objective", (recipe.finetune or recipe.objective).label()))
        facts.append(("depth × width", f"{recipe.model.depth} × {recipe.model.width}"))
    if trained := run.environment.get("trained_parameters"):
        facts.append(("trained parameters", f"{trained:,}"))
    elif run.weights:
        facts.append(("parameters", f"{run.weights.parameters:,}"))
    facts += [("imported from", run.imported_from)] if run.imported_from else []
    facts += [("steps", f"{run.num_steps:,}")] if run.num_steps else []
    return facts if run.imported_from else [*facts, *training.training_cost(run)]


MAX_NOTES = 100  # of a training
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
    title = f"Images of {count_of(len(data.classes), 'class')}"
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
    picture = Image.fromarray(arrange_colors(colors).byte().numpy())
    tag = image_tag(png_bytes(picture), caption, scale=1.0)
    return Section("Palette", [Panel([Chart(tag, caption, "pixels palette")])])


def settings_section(run: RunRecord) -> Section:
    """Return the settings by group, a part by its own `label()`, and all of recipe.json on request."""
    panels = [
        Panel(settings=[Settings(name, items, folded=True) for name, items in grouped_settings(run).items()])
    ]
    if not run.imported_from:
        everything = [(name, value_text(value)) for name, value in flatten(run.settings).items()]
        panels.append(Panel(settings=[Settings("every setting", everything, folded=True)]))
    return Section("Settings", panels)


def environment_section(run: RunRecord) -> Section:
    """Return versions and device of a run, notes of its training, and files that could not be read."""
    facts = {key: value for key, value in run.environment.items() if key not in UNSHOWN and value != []}
    items = [(ENVIRONMENT_NAMES.get(key, key), setting_text(value)) for key, value in facts.items()]
    if (majority := run.environment.get("majority")) is not None:
        items.append(("majority class", f"{majority:.1%} of the test images"))
    notes = [] if items else ["No environment.json in this run."]
    notes += [str(each.get("text", "")) for each in run.log if each["kind"] == "note"]
    if len(notes) > MAX_NOTES:
        more = f"{len(notes) - MAX_NOTES:,} more notes are in {run.path.name}/log.jsonl."
        notes = [*notes[:MAX_NOTES], more]
    if run.problems:
        notes += ["Files that could not be read:", *run.problems]
    return Section("Environment", [Panel(settings=[Settings("", items)], notes=notes)])


def commands_section(run: RunRecord) -> Section:
    """Return the commands of all that is shown, each once and under the name of its working directory."""
    commit, here = run.environment.get("commit"), None
    lines = [f"# isopix at commit {commit}"] if commit else []
    made = [each for each in (run.environment, *(each.call for each in run.results)) if each.get("command")]
    calls = dict.fromkeys(
        (shlex.join(repeatable(each["command"])), public(each.get("folder"))) for each in made
    )
    for command, folder in calls:
        if folder and folder != here:
            here = folder
            lines.append(f"cd {shlex.quote(folder)}")
        lines.append(command)
    return Section("Reproduce", [Panel(code="\n".join(lines) or "The command of this run was not recorded.")])
