"""Write the results of a study: trials.json, claims.json, figures and page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isopix.model.pool import Pool
from isopix.storage.atomic import read_json, replace_file, write_json
from isopix.studies.claim_tests import ClaimResult
from isopix.studies.inductive_bias.claims import claim_results
from isopix.studies.inductive_bias.examples import read_example
from isopix.studies.inductive_bias.figures import draw
from isopix.studies.inductive_bias.grid import FILE, SCALES, STUDY_POOLS, Study
from isopix.studies.inductive_bias.page import render_study
from isopix.studies.inductive_bias.trials import Architecture, Trial
from isopix.studies.trial import TrialResult, TrialSpec


class WriteUp(NamedTuple):
    """The results of the claims by pool, a row for each trial, and the page."""

    claims: dict[Pool, list[ClaimResult]]
    trials: list[dict[str, Any]]
    page: Path


def write_up(study: Study) -> WriteUp:
    """Test the claims, draw the figures and write the page, from the trials that are done."""
    results, specs = study.results(), {spec.name: spec for spec in study.specs}
    rows = [_row(specs[name], result) for name, result in results.items()]
    done = [result for result in results.values() if result.trial is not None]
    _check_same_images(results)
    claims = evaluate_trials(done, SCALES[study.plan.scale].effects)
    records: dict[str, list[dict[str, Any]]] = {
        pool: [claim.as_record() for claim in found] for pool, found in claims.items()
    }
    write_json(study.path / "trials.json", {"kind": "trials", "trials": rows})
    write_json(study.path / "claims.json", {"kind": "claims", "pools": records})
    examples = [
        read_example(spec.example, spec.architecture)
        for spec in study.specs
        if results[spec.name].trial is not None and spec.example.is_file()
    ]
    trials = [_trial(result) for result in done]
    figures = draw(trials, examples, study.path / "figures", measurements=_measurements(done), claims=records)
    page, plan = study.path / "report.html", {**read_json(study.path / FILE), "path": str(study.path)}
    first = study.specs[0]
    facts = {**plan, "recipe": first.recipe, "probe": first.probe.label()}
    facts["test_groups"] = len(set(done[0].test_groups)) if done else 0
    environment = _environment(done)
    text = render_study(facts, rows, dict(records), figures=figures, environment=environment)
    replace_file(page, text.encode())
    return WriteUp(claims, rows, page)


def _environment(done: Sequence[TrialResult]) -> dict[str, str]:
    """Return versions and devices; all of them where trials differ."""
    names = dict.fromkeys(name for result in done for name in result.environment)
    return {
        name: "; ".join(dict.fromkeys(str(result.environment.get(name, "unknown")) for result in done))
        for name in names
    }


def evaluate_trials(
    done: Sequence[TrialResult], effects: Mapping[str, float]
) -> dict[Pool, list[ClaimResult]]:
    """Return the results of the ten claims under each pool, from the results of finished trials."""
    measurements = _measurements(done)
    groups = np.array(done[0].test_groups) if done and done[0].test_groups else None
    trials = [_trial(each) for each in done]
    return {
        pool: claim_results(trials, measurements, pool, effects=effects, groups=groups)
        for pool in STUDY_POOLS
    }


def _measurements(done: Sequence[TrialResult]) -> dict[tuple[Architecture, int], dict[str, Any]]:
    """Return what was measured of each network, with the loss of predicting frequencies as `unigram`."""
    return {
        (_trial(each).architecture, _trial(each).seed): {
            **each.metrics["measurements"],
            **each.metrics["loss_measurement"]["baselines"],
        }
        for each in done
    }


def _check_same_images(results: Mapping[str, TrialResult]) -> None:
    """Raises ValueError for trials that were probed on other images than the first one."""
    done = {name: result for name, result in results.items() if result.trial is not None}
    for name, result in done.items():
        first, other = next(iter(done.items()))
        if (result.environment.get("data"), result.test_groups) != (
            other.environment.get("data"),
            other.test_groups,
        ):
            raise ValueError(f"{name} and {first} are of other images; take the results of one of them away")


def _trial(result: TrialResult) -> Trial:
    assert result.trial is not None, "the trial is done"
    return result.trial


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
    return row | {"loss": trial.loss, "pools": _pool_rows(trial)} | result.metrics


def _pool_rows(trial: Trial) -> dict[str, dict[str, Any]]:
    """Return the accuracies of a trial and of its baselines by pool."""
    return {
        pool: {
            "best_layer": probes.network.best_layer,
            "test_accuracy": probes.network.test_accuracy,
            "test_accuracies": probes.network.test_accuracies,
            "validation_accuracies": probes.network.validation_accuracies,
            "untrained": probes.untrained.test_accuracy,
            "raw_pixels": probes.raw_pixels.test_accuracy,
            "pixel_components": probes.pixel_components and probes.pixel_components.test_accuracy,
            "majority": probes.majority,
        }
        for pool, probes in trial.probes.items()
    }
