"""One self-contained HTML page about one or several runs: no script, no network, no silent gap."""

import io
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Float, UInt8
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from isopix.core.config import flatten
from isopix.plots import curves, svg
from isopix.plots.palette import arrange, oklab
from isopix.report import headline, probes, template, words
from isopix.report.captions import TITLES
from isopix.report.finetuning import classes_alone
from isopix.report.finetuning_section import Tuned, is_tuned, tuned
from isopix.report.gallery import Gallery, Picture, embed, galleries, instead
from isopix.report.headline import best, listed, percent
from isopix.report.load_run import Analysis, Gathered, gather
from isopix.report.probe_curve_section import Chart, chart
from isopix.report.summary import summary
from isopix.storage.run_folder import RunFolder

Values = Mapping[str, Any]

# What the files of somebody else's model state; the rest of its recipe is our defaults.
STATED = ("data.rows", "data.cols", "codec.colours", "block.", "depth", "width", "objective.kind")


class View(NamedTuple):
    """A run as the template shows it."""

    name: str
    run: Gathered
    path: str  # as a command takes it
    graded: str
    levels: int | None
    headline: str
    why: str
    facts: list[tuple[str, str]]
    galleries: list[Gallery]
    instead: str
    probes: list[tuple[Markup, Values]]
    loss: Markup | None
    along: Chart | None
    tuned: Tuned | None
    analyses: list[tuple[str, Chart]]
    held_out: headline.HeldOut | None
    palette: Picture | None
    sentences: list[str]
    settings: Values
    environment: list[tuple[str, str]]
    commands: list[str]
    notes: list[str]


def build(runs: Sequence[RunFolder]) -> str:
    """The page about these runs, in order; raises what `read` raises."""
    return render(read(runs))


def read(runs: Sequence[RunFolder]) -> dict[str, Gathered]:
    """All runs by their names. Raises ValueError without runs, or if a recipe cannot be read."""
    if not runs:
        raise ValueError("a report needs a run folder, as in: isopix report runs/photos")
    return dict(zip(_names([run.path for run in runs]), map(gather, runs), strict=True))


def render(gathered: Mapping[str, Gathered]) -> str:
    """The page about what was read."""
    views = [_view(name, number, run) for number, (name, run) in enumerate(gathered.items())]
    return template.render(
        "page.html.j2",
        title=listed(list(gathered)),
        headline=headline.headline(gathered),
        summary=summary(gathered),
        bands=list(dict.fromkeys(_band(v.run.weights.colours) for v in views if v.palette and v.run.weights)),
        together=_together(gathered),
        along=chart(gathered, "along"),
        views=views,
        unit=_unit(gathered),
        date=str(views[0].run.environment.get("started", ""))[:10],
        report_command=shlex.join(["isopix", "report", *(str(run.path) for run in gathered.values())]),
    )


def _unit(runs: Mapping[str, Gathered]) -> str:
    """What the losses of codes in the summary are the mean of."""
    learnt = [run.recipe for run in runs.values() if not classes_alone(run.recipe)]
    return " or ".join(dict.fromkeys(map(words.graded, learnt))) or "code"


def _names(paths: Sequence[Path]) -> list[str]:
    """The folders' own names; with their parents' where two are equal, and whole where that is not enough."""
    for parts in (1, 2):
        names = ["/".join(path.resolve().parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    if len(set(paths)) < len(paths):
        raise ValueError("a report shows each run once; one was given twice")
    return [str(path) for path in paths]


def _view(name: str, number: int, run: Gathered) -> View:
    graded, levels, held_out = _measured(run)
    pictures, others = _pictures(run)
    return View(
        name=name,
        run=run,
        path=shlex.quote(str(run.path)),
        graded=graded,
        levels=levels,
        headline=headline.headline({name: run}),
        why=headline.why(run),
        facts=_facts(run),
        galleries=pictures,
        instead=others,
        probes=[
            (_accuracy({"trained": probe}, f"a{number}-{i}"), probe) for i, probe in enumerate(run.probes)
        ],
        loss=_loss(run, f"l{number}"),
        along=chart({name: run}, f"r{number}"),
        tuned=tuned(run, f"t{number}"),
        analyses=[_analysis(each, f"n{number}-{i}") for i, each in enumerate(run.analyses)],
        held_out=held_out,
        palette=_palette(run),
        sentences=headline.sentences(run),
        settings=_settings(run),
        environment=[(key, _text(value)) for key, value in run.environment.items() if key != "command"],
        commands=_commands(run),
        notes=[str(each.get("text", "")) for each in run.records if each["kind"] == "note"],
    )


def _measured(run: Gathered) -> tuple[str, int | None, headline.HeldOut | None]:
    """What a loss is of, how many values that has, and the loss: of classes, where they alone are learnt."""
    if not classes_alone(run.recipe):
        return words.graded(run.recipe), headline.uniform(run), headline.held_out(run)
    classes = run.weights.classes if run.weights else 0
    return "label", classes or None, headline.class_loss(run)


def _pictures(run: Gathered) -> tuple[list[Gallery], str]:
    """Galleries, and what cannot be drawn; without a decoder there is none to be made, but any that is
    there.
    """
    if not classes_alone(run.recipe):
        return galleries(run), instead(run)
    return [gallery for gallery in galleries(run) if gallery.pictures], ""


def _settings(run: Gathered) -> Values:
    """Those of the recipe; of somebody else's model those alone that its files state."""
    settings = flatten(run.recipe)
    return {key: settings[key] for key in settings if key.startswith(STATED)} if run.imported else settings


def _facts(run: Gathered) -> list[tuple[str, str]]:
    seconds = max((each["seconds"] for each in run.records if each["kind"] == "train"), default=0.0)
    hours, minutes = divmod(round(seconds / 60), 60)
    took = f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"
    facts = [("objective", words.learns(run.recipe))]
    if trained := run.environment.get("trained_parameters"):
        facts.append(("parameters trained", f"{trained:,}"))
    elif run.weights:
        facts.append(("parameters", f"{run.weights.parameters:,}"))
    if run.imported:
        step = run.weights.step if run.weights else 0
        return [*facts, ("steps", f"{step:,}" if step else "not known"), ("imported from", run.imported)]
    return [
        *facts,
        ("steps", f"{headline.steps(run):,}"),
        ("images shown", f"{headline.seen(run):,}"),
        ("training", took),
    ]


def _together(runs: Mapping[str, Gathered]) -> Markup | None:
    """The layers of several runs in one figure, where their probes can be compared."""
    found = probes.speaking(runs)
    if len(found) < 2 or probes.differences(list(found.values())):
        return None
    return _accuracy(found, "together")


def _accuracy(shown: Mapping[str, Values], name: str) -> Markup:
    scores = {run: best(probe["network"]) for run, probe in shown.items()}
    found = [
        f"{run}: best layer {score['layer']}, {percent(score['test_accuracy'])}"
        for run, score in scores.items()
    ]
    return svg.markup(curves.accuracy_by_layer(shown), name, f"Test accuracy by layer. {'; '.join(found)}.")


def _analysis(found: Analysis, name: str) -> tuple[str, Chart]:
    title = TITLES[found.name]
    return title, Chart(svg.markup(found.figure, name, f"{title}. {found.caption}"), found.caption)


def _loss(run: Gathered, name: str) -> Markup | None:
    graded, count, loss = _measured(run)
    if not any("loss_nats" in each for each in run.records):
        return None
    alone = classes_alone(run.recipe)
    # What joint fine-tuning is trained by is the sum of two losses, and not comparable with one.
    records = [each for each in run.records if each["kind"] != "train" or alone or not is_tuned(run)]
    reached = f", {loss.nats:.2f} nats a {graded} on {loss.graded}" if loss else ""
    drawn = curves.loss(records, count, code=graded, graded="class_nats" if alone else "loss_nats")
    return svg.markup(drawn, name, f"Loss by step{reached}.")


def _palette(run: Gathered) -> Picture | None:
    if run.weights is None or run.weights.colours is None:
        return None
    colours = run.weights.colours
    tiles = arrange(colours, oklab(colours)).byte()
    rows, cols, _ = tiles.shape
    count = f"{len(colours):,} colours"
    caption = f"All {count} by hue and lightness; every pixel that the model reads or draws is one of them."
    return Picture(_png(tiles), cols, rows, f"The palette: {count}", caption)


def _band(colours: Float[Tensor, "K 3"] | None) -> str:
    """All colours in one line of pixels, from dark to light."""
    assert colours is not None
    return _png(colours[oklab(colours)[:, 0].argsort()].round().byte()[None])


def _png(pixels: UInt8[Tensor, "rows cols 3"]) -> str:
    content = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(content, format="PNG")
    return embed(content.getvalue())


def _commands(run: Gathered) -> list[str]:
    """What made all that is shown, each command once and in its folder: training, probes, pictures."""
    kept = [*(drawing.facts for drawing in run.drawings), *(each.numbers for each in run.analyses)]
    made = [run.environment, *run.probes, *run.evaluations, *kept]
    lines, here = _before(run.environment), None
    for command, folder in dict.fromkeys(
        (_text(each["command"]), each.get("folder")) for each in made if each.get("command")
    ):
        if folder and folder != here:
            here = folder
            lines.append(f"cd {shlex.quote(str(folder))}")
        lines.append(command)
    return lines


def _before(environment: Values) -> list[str]:
    """What must be there first, as comments: the version of isopix, and a palette made by another command."""
    commit, palette = environment.get("commit"), environment.get("palette")
    lines = [f"# isopix at commit {_text(commit)}"] if commit else []
    if isinstance(palette, Mapping):
        lines.append(f"# palette {palette.get('file')}: {palette.get('source')}")
    return [" ".join(line.split()) for line in lines]


def _text(value: object) -> str:
    if isinstance(value, list):
        return shlex.join(str(word) for word in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    return "not recorded" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
