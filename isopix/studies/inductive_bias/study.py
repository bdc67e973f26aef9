"""The study of inductive biases: which networks are trained at which scale, and its page."""

from collections.abc import Mapping
from itertools import product
from typing import ClassVar, NamedTuple

from isopix.probing.methods import LbfgsProbe
from isopix.probing.probe import ProbeMethod
from isopix.recipes.isotropic import CELLS, ENCODINGS
from isopix.reporting.section import write_page
from isopix.runs.series import lr_grid
from isopix.studies.inductive_bias.claims import evaluate_trials
from isopix.studies.inductive_bias.contrasts import MAIN_BLOCKS
from isopix.studies.inductive_bias.figures import read_examples, study_figures
from isopix.studies.inductive_bias.results import Architecture, StudyResult, TrialResult, network_name
from isopix.studies.inductive_bias.trial import BiasTrial
from isopix.studies.study import Study
from isopix.studies.trial import PROBED, RIDGE

MIN_LR = 0.0001  # the last learning rate that is tried where larger ones diverge


class Scale(NamedTuple):
    """A size of the study."""

    prefix: str
    architectures: tuple[Architecture, ...]
    seeds: int
    probe: ProbeMethod
    probe_images: dict[str, int]


_TINY, _SMALL = (tuple(product(MAIN_BLOCKS, ENCODINGS, depths)) for depths in ((1, 3), (1, 3, 6)))
_ALL_IMAGES = {"train": 50_000, "validation": 50_000, "test": 50_000}
SCALES = {
    "tiny": Scale("isotropic.translated_digits-", _TINY, 5, RIDGE, PROBED),
    "small": Scale("isotropic.small-", _SMALL, 5, RIDGE, PROBED),
    "paper": Scale("isotropic.", tuple(CELLS), 3, LbfgsProbe(), _ALL_IMAGES),
}


class BiasStudy(Study[BiasTrial]):
    """Ten claims on convolutions, mixers and transformers."""

    name: ClassVar[str] = "isotropic.study"
    seeds: ClassVar[Mapping[str, int]] = {name: each.seeds for name, each in SCALES.items()}
    result: ClassVar[type[StudyResult]] = StudyResult

    @classmethod
    def cells(cls, scale: str) -> list[str]:
        return list(map(network_name, SCALES[scale].architectures))

    def trial(self, cell: str, seed: int) -> BiasTrial:
        scale = SCALES[self.plan.scale]
        recipe = self.resolved(scale.prefix + cell, seed)
        lr = recipe.train.optimizer.lr
        [architecture] = [each for each in scale.architectures if network_name(each) == cell]
        rates, probe = lr_grid(lr, min(MIN_LR, lr)), self.probe(scale.probe)
        return BiasTrial(self.path, cell, recipe, architecture, rates, probe, scale.probe_images)

    def write_up(self) -> StudyResult:
        results = self.results()
        done = {name: result for name, result in results.items() if result.status == "done"}
        _check_same_images(done)
        claims = evaluate_trials(list(done.values()))
        examples = read_examples([each for each in self.trials if each.name in done])
        train, first = self.trials[0].recipe.train, self.trials[0]
        facts = self.facts(
            width=f"{first.recipe.model.width}",
            training=f"{train.steps:,} steps of {train.batch_size}",
            probe=first.probe.label(),
        )
        result = StudyResult(facts=facts, claims=claims, trials=results).saved(self.path / "report.html")
        write_page(
            self.path / "report.html",
            result,
            list(study_figures([each.measured() for each in done.values()], examples)),
            title="Inductive biases of small isotropic networks",
            headline=f"{len(done)} of {len(results)} networks",
            lead="; ".join(result.verdict_counts(pool) for pool in claims),
        )
        return result


def _check_same_images(done: Mapping[str, TrialResult]) -> None:
    images = {name: (each.environment.get("data"), each.test_groups) for name, each in done.items()}
    for name, own in images.items():
        first = next(iter(images))
        if own != images[first]:
            raise ValueError(f"{name} and {first} are of other images; take the results of one of them away")
