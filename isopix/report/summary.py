"""The summary table: every run and, under it, every control that has learnt nothing."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from isopix.report import finetuning_section, words
from isopix.report.finetuning import classes_alone
from isopix.report.headline import best, held_out, uniform
from isopix.report.load_run import Gathered
from isopix.report.probes import aside, differences, speaking

Values = Mapping[str, Any]


class Row(NamedTuple):
    """A run or a control: its loss in nats a code, its accuracy, and the accuracy's 95 % interval."""

    name: str
    kind: str = "control"  # run, control or shared
    what: str = ""
    nats: float | None = None
    layer: int | None = None
    test: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def bits(self) -> float | None:
        return None if self.nats is None else self.nats / math.log(2)


def summary(runs: Mapping[str, Gathered]) -> list[Row]:
    """Runs with their own controls; controls that several runs share stand once, after them.

    Where probes cannot be compared nothing is shared, and each run is followed by all of its controls.
    """
    rows: list[Row] = []
    shared: dict[Row, None] = {}
    comparable = not differences(list(speaking(runs).values()))
    for name, run in runs.items():
        rows += _run(name, run)
        controls = [] if run.probe is None else list(_shared(run.probe))
        if comparable:
            shared |= dict.fromkeys(controls)
        else:
            rows += [row._replace(kind="control") for row in controls]
    return [*rows, *shared]


def _run(name: str, run: Gathered) -> Iterator[Row]:
    loss, count = held_out(run), uniform(run)
    probe = run.probe
    what = words.learns(run.recipe) + (aside(probe) if probe else "")
    row = Row(name, kind="run", what=what, nats=loss and loss.nats)
    yield _scored(row, probe["network"]) if probe else row
    if answered := finetuning_section.accuracy(run):
        test, low, high, _ = answered
        yield Row("fine-tuned", what="its own classes", test=test, low=low, high=high)
    chance = Row("untrained", what="the same network", nats=math.log(count) if count else None)
    controls = probe["baselines"] if probe else {}
    if "untrained" in controls:
        yield _scored(chance, controls["untrained"])
    elif not classes_alone(run.recipe):
        yield chance
    for control, record in controls.items():
        if control not in ("untrained", "raw pixels"):
            yield _scored(Row(control, what="the best layer"), record)


def _shared(probe: Values) -> Iterator[Row]:
    """Controls that depend on the images alone."""
    images = f", {probe['data']}" if probe["data"] else ""
    if "raw pixels" in probe["baselines"]:
        yield _scored(Row("raw pixels", "shared", f"no network{images}"), probe["baselines"]["raw pixels"])
    yield Row("one class", "shared", f"the most frequent{images}", test=probe["network"]["majority_accuracy"])


def _scored(row: Row, record: Values) -> Row:
    score = best(record)
    layer = score["layer"] if len(record["layers"]) > 1 else None
    return row._replace(
        layer=layer, test=score["test_accuracy"], low=score["interval"][0], high=score["interval"][1]
    )
