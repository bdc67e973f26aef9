"""Write the results of a study: trials.json, claims.json, figures and page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isopix.storage.atomic import read_json, replace_file, write_json
from isopix.storage.record_types import read_environment
from isopix.storage.run_folder import RunFolder
from isopix.studies.claim_tests import ClaimResult
from isopix.studies.inductive_bias.claims import claim_results
from isopix.studies.inductive_bias.figures import draw
from isopix.studies.inductive_bias.grid import FILE, Study
from isopix.studies.inductive_bias.page import render_study
from isopix.studies.trial import TrialResult, TrialSpec

ENVIRONMENT = ("isopix", "commit", "device", "threads", "torch", "pillow", "python", "platform")


class WriteUp(NamedTuple):
    """The results of the claims, a row for each trial, and the page."""

    claims: list[ClaimResult]
    trials: list[dict[str, Any]]
    page: Path


def write_up(study: Study) -> WriteUp:
    """Test the claims, draw the figures and write the page, from the trials that are done."""
    results = study.results()
    specs = {spec.name: spec for spec in study.specs}
    rows = [_row(specs[name], result) for name, result in results.items()]
    done = [(result, result.trial) for result in results.values() if result.trial is not None]
    measurements = {(each.architecture, each.seed): result.metrics["measurements"] for result, each in done}
    claims = claim_results([trial for _, trial in done], measurements)
    records = [claim.as_record() for claim in claims]
    write_json(study.path / "trials.json", {"kind": "trials", "trials": rows})
    write_json(study.path / "claims.json", {"kind": "claims", "claims": records})
    runs = {study.path / "trials" / result.run: trial for result, trial in done}
    figures = draw(runs, study.path / "figures")
    page, plan = study.path / "report.html", {**read_json(study.path / FILE), "path": str(study.path)}
    text = render_study(plan, rows, records, figures=figures, environment=_environment(list(runs)))
    replace_file(page, text.encode())
    return WriteUp(claims, rows, page)


def _environment(runs: Sequence[Path]) -> dict[str, Any]:
    """Return the versions and the device of the first run; empty without any."""
    found = read_environment(RunFolder(runs[0]).environment) if runs else {}
    return {name: found[name] for name in ENVIRONMENT if name in found}


def _row(spec: TrialSpec, result: TrialResult) -> dict[str, Any]:
    """Return a trial as a row of trials.json."""
    block, encoding, depth = spec.architecture
    last = result.lr_trials[-1] if result.lr_trials else None
    row: dict[str, Any] = {
        "name": spec.name,
        "block": block,
        "encoding": encoding,
        "depth": depth,
        "seed": spec.recipe.train.seed,
        "status": result.status,
        "reason": result.reason,
        "run": result.run,
        "learning_rate": None if last is None else last.lr,
        "diverged": [each.lr for each in result.lr_trials if each.loss is None],
        "training_seconds": result.training_seconds,
        "probing_seconds": result.probing_seconds,
    }
    trial = result.trial
    if trial is None:
        return row
    names = ("loss", "best_layer", "test_accuracies", "validation_accuracies", "test_accuracy")
    return row | {name: getattr(trial, name) for name in names} | result.metrics
