"""Pages of self-contained HTML, without scripts and network access, and the report about runs."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from isopix.reporting.run_record import Kinds, RunRecord, read_run
from isopix.reporting.run_sections import (
    color_strip,
    commands_section,
    data_section,
    differences_section,
    environment_section,
    palette_section,
    settings_section,
)
from isopix.reporting.section import Panel, Section, join_words, missing, render, result_panel, result_picture
from isopix.reporting.summary import headline, summary_section
from isopix.reporting.training import finetuning_section, loss_section, num_steps, probe_curve, training_cost
from isopix.storage.run_folder import RunFolder

Facts = Sequence[tuple[str, str]]


class Article(NamedTuple):
    """A part of a page with a heading of its own, as of one run of several."""

    name: str
    headline: str
    facts: Facts
    sections: Sequence[Section]


class Page(NamedTuple):
    """A page; `command` is what wrote it, `bands` are data URLs of pictures above its head."""

    title: str
    headline: str
    sections: Sequence[Section]
    command: Sequence[str]
    lead: str = ""
    facts: Facts = ()
    articles: Sequence[Article] = ()
    bands: Sequence[str] = ()

    def html(self) -> str:
        return render("page.html.j2", **{**self._asdict(), "command": shlex.join(self.command)})


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
    articles = [_article(name, number, run, len(runs)) for number, (name, run) in enumerate(runs.items())]
    colors = [run.weights.colors for run in runs.values() if run.weights and run.weights.colors is not None]
    bands = list(dict.fromkeys(map(color_strip, colors)))
    command = ["isopix", "report", *(str(run.path) for run in runs.values())]
    if len(runs) == 1:
        [only] = articles
        return Page(only.name, only.headline, only.sections, command, facts=only.facts, bands=bands)
    shared = [summary_section(runs, "together"), differences_section(runs)]
    if curve := probe_curve(runs, "along"):
        shared.insert(1, Section("Loss and probe accuracy", [Panel([curve])]))
    return Page(join_words(list(runs)), headline(runs), shared, command, articles=articles, bands=bands)


def _article(name: str, number: int, run: RunRecord, count: int) -> Article:
    path, curve = shlex.quote(str(run.path)), probe_curve({name: run}, f"along-{number}")
    pictures, numbers = _results(run, number)
    sections = [
        *pictures,
        data_section(run),
        finetuning_section(run, f"fine-tuning-{number}", path),
        summary_section({name: run}, "") if count == 1 else None,
        *numbers,
        loss_section(run, f"loss-{number}", path),
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
        shown = all(map(result_picture, found))
        (pictures if shown else numbers).append(Section(title, panels, "stack" if shown else "pair"))
    return pictures, numbers


def _suggestions(run: RunRecord, path: str) -> Section | None:
    there = {each.call["verb"] for each in run.results}
    possible = ["probe"] if run.recipe is None or run.recipe.finetune is None else ["evaluate"]
    if run.recipe is not None and run.predicts_codes:
        objective, head = run.recipe.objective, run.recipe.model.head
        possible += ["sample" if objective.can_sample else "reconstruct", "score"]
        possible += ["complete"] * (head.categorical and (objective.can_sample or objective.masks_input))
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
    facts += [("steps", f"{num_steps(run):,}")] if num_steps(run) else []
    return facts if run.imported_from else [*facts, *training_cost(run)]
