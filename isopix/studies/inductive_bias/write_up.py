"""Write the results of a study: its record, figures and page."""

from collections.abc import Mapping, Sequence

import numpy as np

from isopix.core.choices import Pool
from isopix.studies.inductive_bias.claims import evaluate_claims
from isopix.studies.inductive_bias.evidence import StudyEvidence
from isopix.studies.inductive_bias.figures import study_figures
from isopix.studies.inductive_bias.grid import SCALES, STUDY_POOLS, Study
from isopix.studies.inductive_bias.results import StudyResult, TrialResult
from isopix.studies.page import write_page
from isopix.studies.results import ClaimRecord

TITLE = "Inductive biases of small isotropic networks"


def write_up(study: Study) -> StudyResult:
    """Test the claims, draw the figures and write the page, from the trials that are done."""
    results = study.results()
    done = {name: result for name, result in results.items() if result.status == "done"}
    _check_same_images(done)
    claims = evaluate_trials(list(done.values()), SCALES[study.plan.scale].effects)
    result = StudyResult(
        facts=_facts(study, list(done.values())),
        claims=claims,
        trials={name: each.summary() for name, each in results.items()},
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
) -> dict[Pool, tuple[ClaimRecord, ...]]:
    """Return the results of the ten claims under each pool, from the results of finished trials."""
    groups = np.array(done[0].test_groups) if done and done[0].test_groups else None
    trials = [each.measured() for each in done]
    return {
        pool: tuple(evaluate_claims(StudyEvidence(trials, pool, effects, groups))) for pool in STUDY_POOLS
    }


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
        "probe": first.probe.label(),
        "seeds": f"{study.plan.seeds}",
        **{
            name: "; ".join(dict.fromkeys(str(each.environment.get(name, "unknown")) for each in done))
            for name in names
        },
    }
