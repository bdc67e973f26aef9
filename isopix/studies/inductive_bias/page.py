"""The page of a study: what became of the paper's claims, the figures, and every number behind them."""

import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import mean, stdev
from typing import Any, NamedTuple

from markupsafe import Markup

from isopix.report import template
from isopix.report.headline import listed

Values = Mapping[str, Any]

TITLE = "Inductive biases of small isotropic networks"
NOTHING = "–"
COUNTS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
RULE = (
    "Each claim is taken apart into numbers that ought to be to the right of the upright line. A number is "
    "computed for each seed; the mark is the mean over seeds, the bar its 95 % interval by Student’s t, wide "
    "for few seeds; the words tell mean and deviation over seeds. A number decides where its bar does not "
    "touch the line. A claim holds if all its numbers decide for it, and does not hold if one decides "
    "against it. Words such as “by far” are not judged: the numbers tell how far. "
    "Points are percentage points of test accuracy."
)
GRID_RULE = (
    "Mean ± deviation over seeds. Loss is that of validation images at the end of training, accuracy that of "
    "test images by the layer that validation images chose; untrained is the same of the network before "
    "its first step. A rate below the first is one that followed where the first diverged."
)
BIASES_RULE = (
    "Of the last layer, and means over seeds. Shifted images, permuted pixels: how far the features are from "
    "the shifted or permuted ones, 0 for equal and 1 for no better than chance. Reach: the mean distance in "
    "positions at which a change of one pixel shows, and the radius within which 95 % of it lies. Distance "
    "kept: the rank correlation of the likeness of two levels of red with their nearness; rank: in how many "
    "directions the encoding spreads. Error: of filled-in levels, as a share of the whole range, and how "
    "much of it other places for the same levels would mend."
)
BLOCKS = {"conv": "convolutions", "mixer": "mixers", "transformer-1": "transformers with one head"}


class Shown(NamedTuple):
    """A figure of the page: its title in the margin, what is drawn, and what stands below."""

    title: str
    drawing: Markup
    caption: str


class Row(NamedTuple):
    """A line of a table: its head, and its cells as they are written."""

    name: str
    values: list[str]


def render(
    study: Values,
    cells: Sequence[Values],
    claims: Sequence[Values],
    *,
    figures: Sequence[Shown],
    environment: Values,
) -> str:
    """The page. `study` is its plan and path, `cells` are in the plan's order, with what is known of each;
    `claims` carry their parts, judged.
    """
    done = [cell for cell in cells if cell["state"] == "done"]
    return template.render(
        "study.html.j2",
        title=TITLE,
        date=str(study["written"])[:10],
        headline=headline(claims, done),
        lead=lead(done),
        facts=_facts(study, cells),
        rule=RULE,
        claims=[_claim(each) for each in claims],
        figures=figures,
        biases_rule=BIASES_RULE,
        biases=[_bias(same) for same in _kinds(done)],
        grid_rule=GRID_RULE,
        kinds=[_kind(same) for same in _kinds(cells)],
        cells=[_cell(cell) for cell in cells],
        failures=[f"{cell['name']}: {cell['reason']}" for cell in cells if cell["state"] == "failed"],
        environment=[(name, str(value)) for name, value in environment.items()],
        commands=[f"cd {shlex.quote(str(study['folder']))}", shlex.join(study["command"])],
        report_command=shlex.join(
            ["isopix", "study", "inductive-bias", "--out", study["path"], "--report-only"]
        ),
    )


def headline(claims: Sequence[Values], done: Sequence[Values]) -> str:
    """How many of the claims hold here."""
    if not done:
        return "No network of this study is done yet."
    verdicts = [claim["verdict"] for claim in claims]
    told = {"holds": ("holds", "hold"), "does not hold": ("does not", "do not")}
    told["not decided"] = ("is not decided", "are not decided")
    counts = {each: verdicts.count(each) for each in told}
    phrases = [f"{COUNTS[count]} {told[each][count != 1]}" for each, count in counts.items() if count]
    return f"Of the paper’s {COUNTS[len(claims)]} claims, {listed(phrases)}."


def lead(done: Sequence[Values]) -> str:
    """What blocks reach on average, over the encodings and depths that all of them have."""
    blocks = list(dict.fromkeys(cell["block"] for cell in done))
    kinds = [{(c["encoding"], c["depth"]) for c in done if c["block"] == block} for block in blocks]
    shared = set.intersection(*kinds) if kinds else set()
    if not shared:
        return ""
    told = []
    for block in blocks:
        own = [c for c in done if c["block"] == block and (c["encoding"], c["depth"]) in shared]
        name = BLOCKS.get(block, block)
        loss, accuracy = mean(c["loss"] for c in own), mean(c["accuracy"] for c in own)
        told.append(f"{name} {loss:.2f} nats and {100 * accuracy:.1f} %")
    untrained, pixels = mean(map(_untrained, done)), mean(cell["raw_pixels"] for cell in done)
    text = (
        f"On average {listed(told)}, where untrained networks have 5.55 nats and {100 * untrained:.1f} %, "
        f"and the raw pixels, of which there are more than features, {100 * pixels:.1f} %."
    )
    return text.replace(" %", "\u00a0%")


def _facts(study: Values, cells: Sequence[Values]) -> list[tuple[str, str]]:
    done = [cell for cell in cells if cell["state"] == "done"]
    seconds = sum(cell["training_seconds"] + cell["probing_seconds"] for cell in done)
    return [
        ("scale", str(study["scale"])),
        ("networks", f"{len(done):,} of {len(cells):,}"),
        ("seeds", f"{study['seeds']:,}"),
        ("images", str(study["data"] or "cifar10").rsplit("/", maxsplit=1)[-1]),
        ("work of all", _time(seconds)),
    ]


def _claim(claim: Values) -> dict[str, Any]:
    return {**claim, "parts": [_part(part) for part in claim["parts"]]}


def _part(part: Values) -> dict[str, Any]:
    """A part as it is drawn, from -100 to 100 around what it must be above."""
    centre, half, values = part["mean"], part["half"] or 0.0, part["values"]
    told: dict[str, Any] = {**part, "point": None, "whisker": None, "spread": "", "number": NOTHING}
    if centre is None:
        return {**told, "spread": "cells are missing"}
    off = centre - part["least"]
    scale = 95 / max(abs(off) + half, 1e-12)
    number = f"{centre:+.3g} {part['unit']}".replace("-", "−").strip()
    return {
        **told,
        "point": scale * off,
        "whisker": (scale * (off - half), scale * (off + half)) if len(values) > 1 else None,
        "number": number,
        "spread": f"± {stdev(values):.2g}" if len(values) > 1 else "one seed",
    }


def _kinds(cells: Sequence[Values]) -> list[list[Values]]:
    """The cells of each kind of network; those of one stand together."""
    return [list(same) for _, same in groupby(cells, key=_name)]


def _name(cell: Values) -> str:
    return f"{cell['block']}-{cell['encoding']}-{cell['depth']}"


def _kind(cells: Sequence[Values]) -> Row:
    done = [cell for cell in cells if cell["state"] == "done"]
    values = [
        _spread([cell["loss"] for cell in done], 3),
        _spread([100 * cell["accuracy"] for cell in done], 1),
        ", ".join(str(cell["best"]) for cell in done) or NOTHING,
        _spread([100 * _untrained(cell) for cell in done], 1),
        ", ".join(dict.fromkeys(_rate(cell) for cell in done)) or NOTHING,
        _time(mean(cell["training_seconds"] + cell["probing_seconds"] for cell in done)) if done else NOTHING,
        f"{len(done)} of {len(cells)}",
    ]
    return Row(_name(cells[0]), values)


def _cell(cell: Values) -> Row:
    if cell["state"] != "done":
        return Row(cell["name"], [cell["state"], *[NOTHING] * 3, _rate(cell), NOTHING])
    numbers = [f"{cell['loss']:.4f}", str(cell["best"]), f"{100 * cell['accuracy']:.1f} %", _rate(cell)]
    return Row(cell["name"], ["done", *numbers, _time(cell["training_seconds"] + cell["probing_seconds"])])


def _untrained(cell: Values) -> float:
    """The accuracy of the untrained network by the layer that validation chose of it."""
    return float(cell["untrained"][cell["untrained_best"]])


def _rate(cell: Values) -> str:
    """The rate, and those that diverged before it, or all that did."""
    died = f"{listed([f'{rate:g}' for rate in cell['died']])} diverged" if cell["died"] else ""
    if cell["rate"] is None or cell["rate"] in cell["died"]:
        return died or NOTHING
    return f"{cell['rate']:g} ({died})" if died else f"{cell['rate']:g}"


def _bias(cells: Sequence[Values]) -> Row:
    """Means over seeds of what was measured of one kind."""

    def average(name: str, place: int, digits: int) -> str:
        return f"{mean(cell['measured'][name][place] for cell in cells):.{digits}f}"

    def colours(name: str) -> str:
        return f"{100 * mean(cell['measured']['colours'][name] for cell in cells):.1f} %"

    values = [average(*each) for each in (("translation", -1, 3), ("order", -1, 3), ("reach", -1, 1))]
    values += [average(*each) for each in (("radius", -1, 1), ("preservation", 0, 2), ("rank", 0, 1))]
    return Row(_name(cells[0]), [*values, colours("whole"), colours("misplaced")])


def _spread(values: Sequence[float], digits: int) -> str:
    if not values:
        return NOTHING
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
