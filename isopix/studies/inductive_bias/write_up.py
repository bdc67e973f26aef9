"""Write the results of a study: its record, figures and page."""

from collections.abc import Mapping, Sequence

import numpy as np

from isopix.core.choices import Pool
from isopix.studies.claims import ClaimResult
from isopix.studies.inductive_bias.claims import evaluate_claims
from isopix.studies.inductive_bias.evidence import PoolProbes, StudyEvidence
from isopix.studies.inductive_bias.figures import study_figures
from isopix.studies.inductive_bias.grid import SCALES, STUDY_POOLS, Study
from isopix.studies.inductive_bias.results import PoolRow, StudyResult, TrialRow
from isopix.studies.inductive_bias.trial import TrialResult, TrialSpec
from isopix.studies.page import write_page

TITLE = "Inductive biases of small isotropic networks"


def write_up(study: Study) -> StudyResult:
    """Test the claims, draw the figures and write the page, from the trials that are done."""
    results, specs = study.results(), {spec.name: spec for spec in study.specs}
    done = {name: result for name, result in results.items() if result.status == "done"}
    _check_same_images(done)
    found = evaluate_trials(list(done.values()), SCALES[study.plan.scale].effects)
    claims = {pool: tuple(claim.record() for claim in own) for pool, own in found.items()}
    rows = tuple(_row(specs[name], result) for name, result in results.items())
    result = StudyResult(
        scale=study.plan.scale, facts=_facts(study, list(done.values())), claims=claims, trials=rows
    ).saved(study.path / "report.html")
    write_page(
        study.path / "report.html",
        result,
        list(study_figures([each.measured() for each in done.values()], study.examples(), claims)),
        title=TITLE,
        headline=f"{len(done)} of {len(results)} networks",
        lead="; ".join(result.verdict_counts(pool) for pool in claims),
    )
    return result


def evaluate_trials(
    done: Sequence[TrialResult], effects: Mapping[str, float]
) -> dict[Pool, list[ClaimResult]]:
    """Return the results of the ten claims under each pool, from the results of finished trials."""
    groups = np.array(done[0].test_groups) if done and done[0].test_groups else None
    trials = [each.measured() for each in done]
    return {pool: evaluate_claims(StudyEvidence(trials, pool, effects, groups)) for pool in STUDY_POOLS}


def _check_same_images(done: Mapping[str, TrialResult]) -> None:
    """Raises ValueError for trials that were probed on other images than the first one."""
    images = {name: (each.environment.get("data"), each.test_groups) for name, each in done.items()}
    for name, own in images.items():
        first = next(iter(images))
        if own != images[first]:
            raise ValueError(f"{name} and {first} are of other images; take the results of one of them away")


def _facts(study: Study, done: Sequence[TrialResult]) -> dict[str, str]:
    """Return what all trials have in common, with the versions and devices of all where they differ."""
    first = study.specs[0]
    data, train = first.recipe.data, first.recipe.train
    names = dict.fromkeys(name for each in done for name in each.environment)
    return {
        "scale": study.plan.scale,
        "images": f"{data.source}, {data.rows} × {data.cols}",
        "width": f"{first.recipe.model.width}",
        "training": f"{train.steps:,} steps of {train.batch_size}",
        "probe": first.probe.method.label(),
        "seeds": f"{study.plan.seeds}",
        **{
            name: "; ".join(dict.fromkeys(str(each.environment.get(name, "unknown")) for each in done))
            for name in names
        },
    }


def _row(spec: TrialSpec, result: TrialResult) -> TrialRow:
    block, encoding, depth = spec.architecture
    probes: Mapping[Pool, PoolProbes] = {} if result.trial is None else result.trial.probes
    return TrialRow(
        name=spec.name,
        block=block,
        encoding=encoding,
        depth=depth,
        seed=spec.recipe.train.seed,
        status=result.status,
        reason=result.reason,
        run=result.run,
        learning_rate=result.lr_trials[-1].lr if result.lr_trials else None,
        diverged=tuple(each.lr for each in result.lr_trials if each.loss is None),
        seconds=result.seconds,
        loss=None if result.trial is None else result.trial.loss,
        pools={pool: _pool_row(each) for pool, each in probes.items()},
        metrics=result.metrics,
    )


def _pool_row(probes: PoolProbes) -> PoolRow:
    return PoolRow(
        best_layer=probes.network.best_layer,
        test_accuracies=probes.network.test_accuracies,
        validation_accuracies=probes.network.validation_accuracies,
        untrained=probes.untrained.test_accuracy,
        raw_pixels=probes.raw_pixels.test_accuracy,
        pixel_components=probes.pixel_components and probes.pixel_components.test_accuracy,
        majority=probes.majority,
    )
