"""One self-contained HTML page about one or several runs, without scripts and network access."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from isopix.plots import svg
from isopix.reporting import headline, template
from isopix.reporting.baselines import baselines_section
from isopix.reporting.cost import training_cost
from isopix.reporting.curve_sections import loss_section, probe_curve
from isopix.reporting.data_section import data_section
from isopix.reporting.finetuning_section import finetuning_section
from isopix.reporting.gallery import color_strip, gallery_sections, palette_section
from isopix.reporting.metrics import num_steps
from isopix.reporting.probe_section import accuracy_chart, primary_probes, probe_differences
from isopix.reporting.result_section import result_section
from isopix.reporting.run_reader import read_run
from isopix.reporting.run_record import RunRecord, SavedMetrics
from isopix.reporting.score_section import score_section
from isopix.reporting.section import Chart, Panel, Section, Settings, Text, join_words, missing, percent
from isopix.reporting.settings_section import (
    differences_section,
    last_path_part,
    settings_section,
    without_private_paths,
)
from isopix.storage.run_folder import RunFolder

Values = Mapping[str, Any]
ENVIRONMENT_NAMES = {"data": "data (hash of images and splits)"}


class RunView(NamedTuple):
    """A run as the template shows it."""

    name: str
    headline: str
    diagnosis: str
    facts: list[tuple[str, str]]
    sections: list[Section]


def build(runs: Sequence[RunFolder]) -> str:
    """Return the page about these runs, in order; raises what `read` raises."""
    return render_report(read(runs))


def read(runs: Sequence[RunFolder]) -> dict[str, RunRecord]:
    """Return all runs by their names. Raises ValueError without runs, or if a recipe cannot be read."""
    if not runs:
        raise ValueError("a report needs a run folder, as in: isopix report runs/photos")
    return dict(zip(_names([run.path for run in runs]), map(read_run, runs), strict=True))


def render_report(runs: Mapping[str, RunRecord]) -> str:
    """Return the page about these runs."""
    views = [_view(name, number, run, len(runs)) for number, (name, run) in enumerate(runs.items())]
    colors = [run.weights.colors for run in runs.values() if run.weights and run.weights.colors is not None]
    return template.render_template(
        "page.html.j2",
        title=join_words(list(runs)),
        headline=headline.headline(runs),
        bands=list(dict.fromkeys(map(color_strip, colors))),
        summary=_summary(runs) if len(runs) > 1 else [],
        views=views,
        date=str(next(iter(runs.values())).environment.get("started", ""))[:10],
        report_command=shlex.join(["isopix", "report", *(str(run.path) for run in runs.values())]),
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the folders' names, with their parents' or whole where names are equal."""
    for parts in (1, 2):
        names = ["/".join(path.resolve().parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    if len(set(paths)) < len(paths):
        raise ValueError("a report shows each run once; one was given twice")
    return [str(path) for path in paths]


def _summary(runs: Mapping[str, RunRecord]) -> list[Section]:
    """Return the table of all runs, with the charts that they share if their probes can be compared, and how
    the settings differ.
    """
    charts = list[Chart]()
    probes = primary_probes(runs)
    if len(probes) > 1 and not probe_differences(list(probes.values())):
        caption = (
            "Test accuracy by layer; bands: 95\u00a0% intervals; rings: best layers on validation images."
        )
        charts.append(accuracy_chart(probes, "together", caption))
    if curve := probe_curve(runs, "along"):
        charts.append(curve)
    section = baselines_section(runs)
    return [section._replace(panels=[*section.panels, Panel(charts)]), differences_section(runs)]


def _probes(run: RunRecord, name: str, path: str) -> Section:
    """Return the probes of a run, or the command of one."""
    section = result_section("Linear probe by layer", [each.report for each in run.probes], name)
    command = missing("Not probed yet; with labeled images:", f"isopix probe {path}")
    return section if run.probes else section._replace(panels=[Panel(notes=[command])])


def _view(name: str, number: int, run: RunRecord, count: int) -> RunView:
    path, galleries = shlex.quote(str(run.path)), gallery_sections(run)
    sections: list[Section | None] = [
        *(each for each in galleries if each.panels[0].charts),
        data_section(run),
        finetuning_section(run, f"t{number}", path),
        baselines_section({name: run}) if count == 1 else None,
        _probes(run, f"a{number}", path),
        result_section("Few labels", [each.result for each in run.low_data], "few") if run.low_data else None,
        score_section(run),
        _analyses(run, f"n{number}"),
        loss_section(run, f"l{number}", path),
        _probe_curve(name, number, run),
        palette_section(run, path),
        *(each for each in galleries if not each.panels[0].charts),
        settings_section(run),
        _environment(run),
        Section(
            "Reproduce",
            [Panel(code="\n".join(_commands(run)) or "The command of this run was not recorded.")],
        ),
    ]
    return RunView(
        name=name,
        headline=headline.headline({name: run}),
        diagnosis=headline.diagnosis(run),
        facts=_facts(run),
        sections=[section for section in sections if section is not None],
    )


def _facts(run: RunRecord) -> list[tuple[str, str]]:
    facts = []
    if recipe := run.recipe:
        facts += [("recipe", recipe.name)] if recipe.name else []
        facts.append(("objective", (recipe.finetune or recipe.objective).label()))
        facts.append(("depth × width", f"{recipe.model.depth} × {recipe.model.width}"))
    if trained := run.environment.get("trained_parameters"):
        facts.append(("trained parameters", f"{trained:,}"))
    elif run.weights:
        facts.append(("parameters", f"{run.weights.parameters:,}"))
    if run.imported_from:
        step = run.weights.step if run.weights else 0
        return [*facts, ("steps", f"{step:,}" if step else "not known"), ("imported from", run.imported_from)]
    return [*facts, ("steps", f"{num_steps(run):,}"), *training_cost(run)]


def _analyses(run: RunRecord, name: str) -> Section | None:
    charts = []
    for i, each in enumerate(run.analyses):
        alt = f"{each.title}. {each.caption}"
        drawing = (
            svg.svg_markup(each.figure, each.numbers, name=f"{name}-{i}", alt=alt)
            if each.figure
            else Markup()
        )
        charts.append(Chart(drawing, each.caption, title=each.title))
    return Section("Analysis", [Panel([chart]) for chart in charts], "grid") if charts else None


def _probe_curve(name: str, number: int, run: RunRecord) -> Section | None:
    curve = probe_curve({name: run}, f"r{number}")
    return Section("Loss and probe accuracy", [Panel([curve])]) if curve else None


def _environment(run: RunRecord) -> Section:
    shown = {
        key: value for key, value in run.environment.items() if key not in ("command", "folder", "majority")
    }
    shown = without_private_paths(shown)
    items = [(ENVIRONMENT_NAMES.get(key, key), _text(value)) for key, value in shown.items()]
    if majority := _majority(run):
        items.append(("majority class of train", majority))
    notes: list[Text] = [] if items else ["No environment.json in this run."]
    notes += [str(each.get("text", "")) for each in run.log if each["kind"] == "note"]
    if run.problems:
        notes += ["Files that could not be read:", *run.problems]
    return Section("Environment", [Panel(settings=[Settings("", items)], notes=notes)])


def _majority(run: RunRecord) -> str:
    """Return `10.2 % of 1,350 test images`; empty where it was not measured."""
    fraction, counts = run.environment.get("majority"), run.environment.get("images") or {}
    if fraction is None:
        return ""
    limit = run.recipe.train.num_test_images if run.recipe else None
    count = min(filter(None, (counts.get("test"), limit)), default=None)
    return f"{percent(fraction)} of {'the' if count is None else f'{count:,}'} test images"


def _commands(run: RunRecord) -> list[str]:
    """Return the commands of all that is shown, each once and under the name of its working directory."""
    shown = [*(dict(image.result.call) for image in run.images), *(each.numbers for each in run.analyses)]
    saved: list[SavedMetrics] = [*run.probes, *run.evaluations, *run.scores]
    evaluated = [{"command": each.command, "folder": each.folder} for each in saved]
    made: list[Values] = [run.environment, *evaluated, *shown]
    lines, here = _requirements(run.environment), None
    for command, folder in dict.fromkeys(
        (_text(each["command"]), each.get("folder")) for each in made if each.get("command")
    ):
        if folder and folder != here:
            here = folder
            lines.append(f"cd {shlex.quote(last_path_part(str(folder)))}")
        lines.append(command)
    return lines


def _requirements(environment: Values) -> list[str]:
    """Return comments on what the commands need: the commit of isopix, and a palette file."""
    commit, palette = environment.get("commit"), (environment.get("codec") or {}).get("palette")
    lines = [f"# isopix at commit {_text(commit)}"] if commit else []
    if isinstance(palette, Mapping):
        lines.append(f"# palette {last_path_part(palette.get('file'))}: {palette.get('source')}")
    return [" ".join(line.split()) for line in lines]


def _text(value: object) -> str:
    if isinstance(value, list):
        return shlex.join(last_path_part(str(word)) for word in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    return "not recorded" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
