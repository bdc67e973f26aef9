"""The page of the study: effects and verdicts first, then figures, then the numbers behind them."""

import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from isopix.plots import style
from isopix.reporting import template
from isopix.reporting.section import NUMBER, Chart, Panel, Row, Section, Settings, join_words
from isopix.reporting.section import PageTable as Table
from isopix.studies.inductive_bias.claims_table import claims_view
from isopix.studies.inductive_bias.summary import (
    POOL_DESCRIPTIONS,
    baselines_lead,
    effects_headline,
    verdicts_lead,
)

Values = Mapping[str, Any]

TITLE = "Inductive biases of small isotropic networks"
MISSING = "–"
CLAIMS_NOTE = (
    "Each claim is split into contrasts that are positive if it is true. Mark: mean; bar: 95 % interval "
    "over new seeds, other encodings and depths and, for accuracies, other test images; ticks: each "
    "encoding and depth. Bars of one unit share a scale in each table. A claim holds if the intervals of "
    "all its contrasts lie above zero. It does not hold if a contrast is below zero after Holm’s "
    "correction across the contrasts of the table. It cannot be judged if no block concerned is, on "
    "average, clearly above its baselines (accuracies) or better than the frequencies of levels (losses, "
    "reconstructions), or if a block is missing. Not decided: the line gives the difference that this study "
    "would detect with a probability of 80 %, or the seeds or images needed for it. Words such as “by far” "
    "are not tested. Points are percentage points of test accuracy."
)
TRIALS_NOTE = (
    "Mean ± standard deviation over seeds. Loss: validation images at the end of training, nats per masked "
    "sub-pixel. Accuracy: test images, layer chosen on validation images; untrained: the same before the "
    "first step. A smaller learning rate is used where the first one diverged."
)
BIASES_NOTE = (
    "Last layer, means over seeds. Translation, permutation: relative error of features of shifted or "
    "permuted images, 0 for equivariance, 1 for no better than chance. Receptive field: mean distance in "
    "positions at which a change of one pixel shows, and the radius that holds 95 % of it. Distance "
    "preservation: rank correlation of the similarity and the nearness of two levels of red, of the vectors "
    "after the learned layer, whose bias changes angles (figure 2 is before it); effective rank: dimensions "
    "that the encoding uses. Error: of reconstructed levels, in per cent of the range, and the part that a "
    "permutation of positions would remove."
)
BIAS_COLUMNS = (
    *("translation", "permutation", "receptive field, positions", "95 % radius"),
    *("distance preservation", "effective rank"),
    *("error", "misplaced"),
)
ARCHITECTURE_COLUMNS = (
    *(
        "loss",
        "mean, %",
        "untrained",
        "4 × 4, %",
        "untrained",
        "best layers",
        "learning rate",
        "time",
        "done",
    ),
)
TRIAL_COLUMNS = ("status", "loss", "mean, %", "4 × 4, %", "layers", "learning rate", "time")


def render_study(
    study: Values,
    trials: Sequence[Values],
    claims: Mapping[str, Sequence[Values]],
    *,
    figures: Sequence[Chart],
    environment: Values,
) -> str:
    """Return the page. `study` is the plan, the path, the first recipe and the probe's label, `trials` the
    rows of trials.json in the plan's order, `claims` those of claims.json by pool.
    """
    done = [trial for trial in trials if trial["status"] == "done"]
    made_with = Settings("", [(name, str(value)) for name, value in environment.items()])
    again = ["isopix", "study", "inductive-bias", "--out", str(study["path"]), "--report-only"]
    commands = [shlex.join(study["command"])] if "command" in study else []
    if "folder" in study:
        commands.insert(0, f"cd {shlex.quote(str(study['folder']))}")
    return template.render_template(
        "page.html.j2",
        Path(__file__).parent,
        title=TITLE,
        date=str(study["written"])[:10],
        headline=effects_headline(done),
        lead=" ".join(filter(None, [baselines_lead(done), verdicts_lead(claims, done)])),
        facts=_facts(study, trials, str(environment.get("precision", "unknown precision"))),
        note=CLAIMS_NOTE,
        pools=[(pool, POOL_DESCRIPTIONS[pool], claims_view(found)) for pool, found in claims.items()],
        sections=[
            *(Section(figure.title, [Panel([figure._replace(title="")])]) for figure in figures),
            _biases(done),
            _trials(trials),
            Section("Environment", [Panel(settings=[made_with])]),
            Section("Reproduce", [Panel(code="\n".join(commands or [shlex.join(again)]))]),
        ],
        report_command=shlex.join(again),
    )


def _facts(study: Values, trials: Sequence[Values], precision: str) -> list[tuple[str, str]]:
    done = [trial for trial in trials if trial["status"] == "done"]
    recipe, config = study["recipe"], study["recipe"].train
    images = done[0]["images"] if done else {}
    probed = f"{images['train']:,} / {images['validation']:,} / {images['test']:,}" if images else MISSING
    if study.get("test_groups"):
        probed += f" ({study['test_groups']:,} originals)"
    return [
        ("scale", str(study["scale"])),
        ("images", f"{_source(study)}, {recipe.data.rows} × {recipe.data.cols}"),
        ("width", f"{recipe.model.width}"),
        ("training", f"{config.steps:,} steps of {config.batch_size}, {precision}"),
        ("probe", str(study["probe"])),
        ("images probed (train / validation / test)", probed),
        ("networks", f"{len(done):,} of {len(trials):,}"),
        ("seeds", f"{study['seeds']:,}"),
        ("time of all networks", _time(sum(map(_seconds, done)))),
    ]


def _source(study: Values) -> str:
    source = study["data"] or study["recipe"].data.source
    return str(source).rsplit("/", maxsplit=1)[-1]


def _biases(done: Sequence[Values]) -> Section:
    table = _table("network", BIAS_COLUMNS, [_bias(same) for same in _architectures(done)], "wide-table")
    panel = Panel(tables=[table], notes=[BIASES_NOTE]) if done else Panel(notes=["No trial is done yet."])
    return Section("Biases as numbers", [panel])


def _trials(trials: Sequence[Values]) -> Section:
    rows = [_architecture(same) for same in _architectures(trials)]
    every = _table("trial", TRIAL_COLUMNS, [_trial(trial) for trial in trials])
    failures = [f"{trial['name']}: {trial['reason']}" for trial in trials if trial["status"] == "failed"]
    panels = [
        Panel(tables=[_table("network", ARCHITECTURE_COLUMNS, rows, "wide-table")], notes=[TRIALS_NOTE]),
        Panel(tables=[every._replace(folded="Every trial")]),
    ]
    if failures:
        panels.append(Panel(notes=["Failed; the same command tries them again:", *failures]))
    return Section("Trials", panels)


def _table(first: str, columns: Sequence[str], rows: Sequence[Row], css: str = "") -> Table:
    return Table([(first, ""), *((column, NUMBER) for column in columns)], rows, css)


def _architectures(trials: Sequence[Values]) -> list[list[Values]]:
    """Return the trials of each architecture."""
    ordered = sorted(trials, key=lambda trial: (trial["block"], trial["encoding"], trial["depth"]))
    return [list(same) for _, same in groupby(ordered, key=_name)]


def _name(trial: Values) -> str:
    return f"{trial['block']}-{trial['encoding']}-{trial['depth']}"


def _architecture(trials: Sequence[Values]) -> Row:
    done = [trial for trial in trials if trial["status"] == "done"]
    accuracies = [
        _spread([100 * trial["pools"][pool][name] for trial in done], 1)
        for pool in POOL_DESCRIPTIONS
        for name in ("test_accuracy", "untrained")
    ]
    cells = [
        _spread([trial["loss"] for trial in done], 3),
        *accuracies,
        ", ".join(_layers(trial) for trial in done) or MISSING,
        ", ".join(dict.fromkeys(_learning_rate(trial) for trial in done)) or MISSING,
        _time(mean(map(_seconds, done))) if done else MISSING,
        f"{len(done)} of {len(trials)}",
    ]
    return Row([_name(trials[0]), *cells])


def _layers(trial: Values) -> str:
    return "/".join(str(trial["pools"][pool]["best_layer"]) for pool in POOL_DESCRIPTIONS)


def _trial(trial: Values) -> Row:
    if trial["status"] != "done":
        return Row([trial["name"], trial["status"], *[MISSING] * 4, _learning_rate(trial), MISSING])
    accuracies = [f"{100 * trial['pools'][pool]['test_accuracy']:.1f}" for pool in POOL_DESCRIPTIONS]
    numbers = [f"{trial['loss']:.4f}", *accuracies, _layers(trial), _learning_rate(trial)]
    return Row([trial["name"], "done", *numbers, _time(_seconds(trial))])


def _seconds(trial: Values) -> float:
    return float(trial["training_seconds"] + trial["probing_seconds"])


def _learning_rate(trial: Values) -> str:
    """Return the learning rate, and those that diverged."""
    rate, diverged = trial["learning_rate"], trial["diverged"]
    text = f"{join_words([f'{each:g}' for each in diverged])} diverged" if diverged else ""
    if rate is None or rate in diverged:
        return text or MISSING
    return f"{rate:g} ({text})" if text else f"{rate:g}"


def _bias(trials: Sequence[Values]) -> Row:
    """Return the means over seeds of the measurements of one architecture."""

    def average(name: str, index: int, digits: int) -> str:
        return style.decimal(mean(float(trial["measurements"][name][index]) for trial in trials), digits)

    def color_error(name: str) -> str:
        return f"{100 * mean(trial['measurements']['color_error'][name] for trial in trials):.1f} %"

    names = (
        ("translation_error", -1, 3),
        ("permutation_error", -1, 3),
        ("receptive_field_mean", -1, 1),
        ("receptive_field_radius_95", -1, 1),
    )
    cells = [average(*each) for each in (*names, ("distance_preservation", 0, 2), ("effective_rank", 0, 1))]
    return Row([_name(trials[0]), *cells, color_error("mean_absolute"), color_error("misplaced_fraction")])


def _spread(values: Sequence[float], digits: int) -> str:
    if not values:
        return MISSING
    std = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{std}"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
