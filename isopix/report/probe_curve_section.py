"""Probes along training, as a chart of the report: what networks know against how well they predict."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import Markup

from isopix.analysis.representation import Point, correlation, points
from isopix.plots import representation, svg
from isopix.report import words
from isopix.report.headline import listed, percent
from isopix.report.load_run import Gathered


class Chart(NamedTuple):
    """A figure of the page, and what stands below it."""

    drawing: Markup
    caption: str


def chart(runs: Mapping[str, Gathered], name: str) -> Chart | None:
    """A line a run that was probed at two steps or more. None where less than two of several runs are such,
    or their accuracies are on images of different kinds.
    """
    probed = {run: points(gathered.records) for run, gathered in runs.items()}
    lines = {run: line for run, line in probed.items() if len(_trained(line)) > 1}
    if len(lines) < min(2, len(runs)) or len({_images(runs[run]) for run in lines}) > 1:
        return None
    unit = " or ".join(dict.fromkeys(words.graded(runs[run].recipe) for run in lines))
    alt = (
        f"Accuracy of the probe against validation loss. {'; '.join(_alt(*each) for each in lines.items())}."
    )
    drawn = representation.against_loss(lines, code=unit)
    return Chart(svg.markup(drawn, name, alt), _caption({run: runs[run] for run in lines}, lines))


def _trained(line: list[Point]) -> list[Point]:
    return [point for point in line if point.step > 0]


def _images(run: Gathered) -> str:
    """Which images the accuracies are on, as far as settings tell; the seed draws among like ones."""
    data = run.recipe.get("data")
    told = data if isinstance(data, Mapping) else {}
    return json.dumps([told.get(key) for key in ("source", "holdout", "limit")])


def _alt(name: str, line: list[Point]) -> str:
    found = correlation(line)
    told = f", {representation.told(found)}" if found else ""
    return f"{name}: {percent(line[-1].accuracy)} at {line[-1].loss:.3f} nats{told}"


def _caption(runs: Mapping[str, Gathered], lines: Mapping[str, list[Point]]) -> str:
    steps = [point.step for line in lines.values() for point in _trained(line)]
    judged = {each["probe_images"] for run in runs.values() for each in run.records if "probe_images" in each}
    told = ", ρ Spearman’s rank correlation with its own" if any(map(correlation, lines.values())) else ""
    return (
        f"A small probe of the best layer at steps {min(steps):,} to {max(steps):,}, judged on "
        f"{listed([f'{count:,}' for count in sorted(judged)])} validation images, which are not those that "
        f"chose the layer. Bars are 95\u00a0% intervals{told}; "
        "the ring marks the last step, the broken line the untrained network."
    )
