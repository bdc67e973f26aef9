"""Write-up: the numbers of a study's folder become its cells.json, claims.json, figures and page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isopix.storage.atomic import read_json, room_for, write, write_json
from isopix.storage.run_folder import RunFolder
from isopix.studies.claim_tests import Finding
from isopix.studies.inductive_bias.claims import findings
from isopix.studies.inductive_bias.figures import draw
from isopix.studies.inductive_bias.page import render
from isopix.studies.study import FILE, Study
from isopix.studies.trial import Outcome

MADE_WITH = ("isopix", "commit", "device", "threads", "torch", "pillow", "python", "platform")


class Written(NamedTuple):
    """What was found, and the page that tells it."""

    findings: list[Finding]
    cells: list[dict[str, Any]]
    page: Path


def write_up(study: Study) -> Written:
    """Judge the claims, draw the figures and write the page, from whatever cells are done."""
    outcomes = study.outcomes()
    kinds = {task.name: (*task.kind, task.recipe.train.seed) for task in study.tasks()}
    rows = [_row(name, kinds[name], outcome) for name, outcome in outcomes.items()]
    cells = [outcome.cell for outcome in outcomes.values() if outcome.cell is not None]
    measured = {
        (outcome.cell.kind, outcome.cell.seed): outcome.found["measured"]
        for outcome in outcomes.values()
        if outcome.cell is not None
    }
    found = findings(cells, measured)
    told = [each.told() for each in found]
    write_json(study.path / "cells.json", {"kind": "cells", "cells": rows})
    write_json(study.path / "claims.json", {"kind": "claims", "claims": told})
    runs = {
        study.path / "cells" / outcome.run: outcome.cell
        for outcome in outcomes.values()
        if outcome.cell is not None
    }
    figures = draw(runs, study.path / "figures")
    page, plan = study.path / "report.html", {**read_json(study.path / FILE), "path": str(study.path)}
    text = render(plan, rows, told, figures=figures, environment=_surroundings(list(runs)))
    with room_for(f"report {page}", study.path):
        write(page, text.encode())
    return Written(found, rows, page)


def _surroundings(runs: Sequence[Path]) -> dict[str, Any]:
    """What the first of the runs was made with; nothing without any."""
    found = read_json(RunFolder(runs[0]).environment) if runs else {}
    return {name: found[name] for name in MADE_WITH if name in found}


def _row(name: str, kind: tuple[str, str, int, int], outcome: Outcome) -> dict[str, Any]:
    """All that is known of a cell, as a line of the table."""
    block, encoding, depth, seed = kind
    last = outcome.rungs[-1] if outcome.rungs else None
    row: dict[str, Any] = {
        "name": name,
        "block": block,
        "encoding": encoding,
        "depth": depth,
        "seed": seed,
        "state": outcome.state,
        "reason": outcome.reason,
        "run": outcome.run,
        "rate": None if last is None else last.lr,
        "died": [rung.lr for rung in outcome.rungs if rung.loss is None],
        "training_seconds": outcome.training_seconds,
        "probing_seconds": outcome.probing_seconds,
    }
    cell = outcome.cell
    return row if cell is None else row | _numbers(outcome.found) | {"accuracy": cell.accuracy}


def _numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    cell = found["cell"]
    more = {name: each for name, each in found.items() if name != "cell"}
    return {name: cell[name] for name in ("loss", "best", "accuracies", "validations")} | more
