"""The page of the study: the claims with their contrasts, the figures, and the numbers behind them."""

import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from isopix.reporting import template
from isopix.reporting.section import NUMBER, Chart, Panel, Row, Section, Settings, Table, join_words

Values = Mapping[str, Any]

TITLE = "Inductive biases of small isotropic networks"
MISSING = "–"
COUNTS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
CLAIMS_NOTE = (
    "Each claim is split into contrasts that exceed a threshold (vertical line; 0 unless stated) if it is "
    "true. A contrast is computed for each seed; the mark is its mean, the bar the 95 % interval by "
    "Student’s t, which is wide for few seeds; the numbers are mean and standard deviation over seeds. A "
    "contrast is decided if its bar does not touch the line. A claim holds if all its contrasts do, and does "
    "not hold if one does not. Words such as “by far” are not tested. Points are percentage points of test "
    "accuracy."
)
TRIALS_NOTE = (
    "Mean ± standard deviation over seeds. Loss: validation images at the end of training. Accuracy: test "
    "images, layer chosen on validation images; untrained: the same before the first step. A smaller "
    "learning rate is used where the first one diverged."
)
BIASES_NOTE = (
    "Last layer, means over seeds. Translation, permutation: relative error of features of shifted or "
    "permuted images, 0 for equivariance, 1 for no better than chance. Receptive field: mean distance in "
    "positions at which a change of one pixel shows, and the radius that holds 95 % of it. Distance "
    "preservation: rank correlation of the similarity and the nearness of two levels of red; effective rank: "
    "dimensions that the encoding uses. Error: of reconstructed levels, in per cent of the range, and the "
    "part that a permutation of positions would remove."
)
BLOCKS = {"conv": "convolutions", "mixer": "mixers", "transformer-1": "transformers with one head"}
BIAS_COLUMNS = (
    *("translation", "permutation", "receptive field, positions", "95 % radius"),
    *("distance preservation", "effective rank"),
    *("error", "misplaced"),
)
ARCHITECTURE_COLUMNS = (
    *("nats per masked sub-pixel", "accuracy, %", "best layer", "untrained, %", "learning rate", "time"),
    "done",
)
TRIAL_COLUMNS = ("status", "nats", "layer", "accuracy", "learning rate", "time")


def render_study(
    study: Values,
    trials: Sequence[Values],
    claims: Sequence[Values],
    *,
    figures: Sequence[Chart],
    environment: Values,
) -> str:
    """Return the page. `study` is the plan and the path, `trials` the rows of trials.json in the plan's
    order, `claims` those of claims.json.
    """
    done = [trial for trial in trials if trial["status"] == "done"]
    made_with = Settings("", [(name, str(value)) for name, value in environment.items()])
    commands = [f"cd {shlex.quote(str(study['folder']))}", shlex.join(study["command"])]
    return template.render_template(
        "page.html.j2",
        Path(__file__).parent,
        title=TITLE,
        date=str(study["written"])[:10],
        headline=claims_headline(claims, done),
        lead=lead(done),
        facts=_facts(study, trials),
        note=CLAIMS_NOTE,
        claims=[{**claim, "contrasts": [_contrast(each) for each in claim["contrasts"]]} for claim in claims],
        sections=[
            *(Section(figure.title, [Panel([figure._replace(title="")])]) for figure in figures),
            _biases(done),
            _trials(trials),
            Section("Environment", [Panel(settings=[made_with])]),
            Section("Reproduce", [Panel(code="\n".join(commands))]),
        ],
        report_command=shlex.join(
            ["isopix", "study", "inductive-bias", "--out", study["path"], "--report-only"]
        ),
    )


def claims_headline(claims: Sequence[Values], done: Sequence[Values]) -> str:
    """Return how many of the claims hold."""
    if not done:
        return "No trial of this study is done yet."
    conclusions = [claim["conclusion"] for claim in claims]
    verbs = {"holds": ("holds", "hold"), "does not hold": ("does not", "do not")}
    verbs["not decided"] = ("is not decided", "are not decided")
    counts = {each: conclusions.count(each) for each in verbs}
    phrases = [f"{COUNTS[count]} {verbs[each][count != 1]}" for each, count in counts.items() if count]
    return f"Of the paper’s {COUNTS[len(claims)]} claims, {join_words(phrases)}."


def lead(done: Sequence[Values]) -> str:
    """Return the means of each block over the encodings and depths that all have, and the baselines."""
    blocks = list(dict.fromkeys(trial["block"] for trial in done))
    variants = [{(t["encoding"], t["depth"]) for t in done if t["block"] == block} for block in blocks]
    shared = set.intersection(*variants) if variants else set()
    if not shared:
        return ""
    means = []
    for block in blocks:
        own = [t for t in done if t["block"] == block and (t["encoding"], t["depth"]) in shared]
        loss, accuracy = mean(t["loss"] for t in own), mean(t["test_accuracy"] for t in own)
        means.append(f"{BLOCKS.get(block, block)} {loss:.2f} nats, {100 * accuracy:.1f} %")
    untrained, pixels = mean(map(_untrained, done)), mean(trial["raw_pixels"] for trial in done)
    text = (
        f"Mean loss and test accuracy: {'; '.join(means)}. Baselines: untrained networks 5.55 nats, "
        f"{100 * untrained:.1f} %; raw pixels (higher-dimensional than the features) {100 * pixels:.1f} %."
    )
    return text.replace(" %", "\u00a0%")


def _facts(study: Values, trials: Sequence[Values]) -> list[tuple[str, str]]:
    done = [trial for trial in trials if trial["status"] == "done"]
    return [
        ("scale", str(study["scale"])),
        ("networks", f"{len(done):,} of {len(trials):,}"),
        ("seeds", f"{study['seeds']:,}"),
        ("images", str(study["data"] or "cifar10").rsplit("/", maxsplit=1)[-1]),
        ("total time", _time(sum(map(_seconds, done)))),
    ]


def _contrast(contrast: Values) -> dict[str, Any]:
    """Return a contrast with its mark and bar, from -100 to 100 around the threshold."""
    center, half, values = contrast["mean"], contrast["half_width"] or 0.0, contrast["values"]
    shown: dict[str, Any] = {**contrast, "point": None, "whisker": None, "spread": "", "number": MISSING}
    if center is None:
        return {**shown, "spread": "not run"}
    distance = center - contrast["threshold"]
    scale = 95 / max(abs(distance) + half, 1e-12)
    return {
        **shown,
        "point": scale * distance,
        "whisker": (scale * (distance - half), scale * (distance + half)) if len(values) > 1 else None,
        "number": f"{center:+.3g} {contrast['unit']}".replace("-", "−").strip(),
        "spread": f"± {stdev(values):.2g}" if len(values) > 1 else "one seed",
    }


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
    return [list(same) for _, same in groupby(trials, key=_name)]


def _name(trial: Values) -> str:
    return f"{trial['block']}-{trial['encoding']}-{trial['depth']}"


def _architecture(trials: Sequence[Values]) -> Row:
    done = [trial for trial in trials if trial["status"] == "done"]
    cells = [
        _spread([trial["loss"] for trial in done], 3),
        _spread([100 * trial["test_accuracy"] for trial in done], 1),
        ", ".join(str(trial["best_layer"]) for trial in done) or MISSING,
        _spread([100 * _untrained(trial) for trial in done], 1),
        ", ".join(dict.fromkeys(_learning_rate(trial) for trial in done)) or MISSING,
        _time(mean(map(_seconds, done))) if done else MISSING,
        f"{len(done)} of {len(trials)}",
    ]
    return Row([_name(trials[0]), *cells])


def _trial(trial: Values) -> Row:
    if trial["status"] != "done":
        return Row([trial["name"], trial["status"], *[MISSING] * 3, _learning_rate(trial), MISSING])
    accuracy = f"{100 * trial['test_accuracy']:.1f} %"
    numbers = [f"{trial['loss']:.4f}", str(trial["best_layer"]), accuracy, _learning_rate(trial)]
    return Row([trial["name"], "done", *numbers, _time(_seconds(trial))])


def _seconds(trial: Values) -> float:
    return float(trial["training_seconds"] + trial["probing_seconds"])


def _untrained(trial: Values) -> float:
    """Return the test accuracy of the untrained network, layer chosen on validation images."""
    return float(trial["untrained"][trial["untrained_best_layer"]])


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
        return f"{mean(trial['measurements'][name][index] for trial in trials):.{digits}f}"

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
