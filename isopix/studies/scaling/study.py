"""The scaling study: networks of several sizes at each of several budgets of FLOPs, and their laws."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from isopix.data.dataset import ImageDataset
from isopix.data.load import load_dataset
from isopix.objectives.base import PretrainModel
from isopix.plots.scaling import Trend, format_flops, plot_profiles, plot_trends
from isopix.probing.config import ProbeConfig
from isopix.probing.features import FeatureSource, NetworkFeatures, read_splits
from isopix.probing.probe import ProbeMethod, evaluate_probe
from isopix.probing.results import LayerScore
from isopix.recipes import registry
from isopix.recipes.cost import num_parameters, recipe_cost, training_flops
from isopix.recipes.recipe import Recipe
from isopix.reporting.section import PageFigure, write_page
from isopix.runs.load import load_run
from isopix.runs.series import train_at_lr, trial_recipe
from isopix.runs.start import TrainingStart
from isopix.runs.training_log import RunObserver
from isopix.storage.atomic import read_json
from isopix.storage.run_folder import RunFolder
from isopix.studies.scaling.law import FEWEST_SIZES, Profile, fit_law
from isopix.studies.scaling.results import Measure, NetworkOutcome, ScalingLaw, ScalingResult
from isopix.studies.study import Study
from isopix.studies.trial import PROBED, RIDGE, StudyTrial, orphaned, recorded_environment, sampled

LABELS: dict[Measure, str] = {
    "loss": "Validation loss (nats per pixel)",
    "error": "Error of the best layer's probe",
}
PANELS = (  # title, quantity, and the measures whose laws are shown
    ("Parameters in blocks", "parameters", LABELS),
    ("Tokens seen", "tokens", LABELS),
    *((label, "value", (measure,)) for measure, label in LABELS.items()),
)
HEAD_WIDTH = 64
TARGET = "igpt.s"  # what the laws are extrapolated to
EVALUATED = "evaluate_images=2000"
PROBE_IMAGES = ", ".join(f"{count:,} {name}" for name, count in PROBED.items())
MEASURED = {"loss": "2,000 validation images", "probe images": PROBE_IMAGES}


class Size(NamedTuple):
    width: int
    depth: int

    @property
    def settings(self) -> tuple[str, ...]:
        heads = max(1, self.width // HEAD_WIDTH)
        return f"width={self.width}", f"depth={self.depth}", f"block.heads={heads}"

    def __str__(self) -> str:
        return f"{self.width}x{self.depth}"


class NetworkCell(NamedTuple):
    """What the networks of several seeds share; budgets are of training FLOPs."""

    recipe: str
    budget: float
    size: Size | None = None  # None: that of the recipe

    def __str__(self) -> str:
        parts = (self.recipe, format_flops(self.budget), self.size)
        return "-".join(str(each) for each in parts if each)


class IsoFLOPScale(NamedTuple):
    """What is trained at a scale: recipes, and sizes by budget."""

    recipes: Sequence[str]
    sizes: Mapping[float, Sequence[Size]]
    image_size: int
    batch_size: int = 64
    seeds: int = 3

    @property
    def cells(self) -> dict[str, NetworkCell]:
        pairs = [(budget, size) for budget, own in self.sizes.items() for size in own]
        found = [NetworkCell(recipe, *pair) for recipe, pair in product(self.recipes, pairs)]
        return {str(each): each for each in found}


SIZES = (*(Size(width, 2) for width in (16, 24, 32, 48, 64)), Size(96, 3), Size(128, 4))
_TINY = dict.fromkeys((5e11, 1e12, 2e12, 4e12), SIZES[:6])
_SMALLEST = {5e11: 0, 2e12: 0, 8e12: 1, 3.2e13: 2}  # the first of five sizes, by budget
_SMALL = {budget: SIZES[first : first + 5] for budget, first in _SMALLEST.items()}
SCALES = {
    "tiny": IsoFLOPScale(["modern.tiny"], _TINY, image_size=8),
    "small": IsoFLOPScale(["igpt.tiny", "modern.tiny"], _SMALL, image_size=16),
}


def for_budget(recipe: Recipe, flops: float, settings: Sequence[str] = ()) -> Recipe:
    """Return the recipe with as many steps as take these FLOPs, evaluated at its end.

    Raises ValueError for settings that name steps.
    """
    if any(each.partition("=")[0].rpartition(".")[2] in ("steps", "epochs") for each in settings):
        raise ValueError("steps follow from the budgets of FLOPs; leave out steps and epochs")
    steps = max(1, round(flops / recipe_cost(recipe).training_flops / recipe.train.batch_size))
    return recipe.updated(steps=steps, evaluate_every=steps, checkpoint_every=max(1, steps // 4))


@dataclass(frozen=True)
class ScalingTrial(StudyTrial):
    """A network of a size, trained for as many steps as take the budget; probed untrained too if asked to."""

    outcome: ClassVar[type[NetworkOutcome]] = NetworkOutcome

    where: NetworkCell
    probe: ProbeMethod
    probed: Mapping[str, int] = field(default_factory=lambda: PROBED)
    untrained: bool = False

    def measure(self, device: torch.device) -> None:
        recipe, observer = trial_recipe(self.recipe), RunObserver(stop=orphaned)
        lr = recipe.train.optimizer.lr
        trained = train_at_lr(TrainingStart(recipe), lr, self.run, device=device, observer=observer)
        if trained is None:
            return
        if trained.loss is None:
            raise RuntimeError(f"the loss diverged at learning rate {lr:g}")
        loaded = load_run(self.run, device=device)
        network = loaded.network.eval()
        data, untrained_error = sampled(load_dataset(recipe.data), self.probed), None

        def probed(model: PretrainModel) -> LayerScore:
            source = NetworkFeatures(model, recipe.train.precision_on(device), config=ProbeConfig())
            return probe_source(source, data, self.probe, device)

        best = probed(loaded.model)
        if self.untrained:
            untrained = recipe.build(loaded.network.codec).to(device).eval()
            untrained_error = 1 - probed(PretrainModel(untrained, recipe.objective)).test_accuracy
        self.write(
            NetworkOutcome(
                status="done",
                environment=recorded_environment(read_json(RunFolder(self.run).environment)),
                recipe=self.where.recipe,
                size=str(self.where.size or ""),
                budget=self.where.budget,
                flops=training_flops(recipe),
                parameters=sum(map(num_parameters, network.backbone.blocks)),
                tokens=recipe.train.steps * recipe.train.batch_size * recipe.grid.positions,
                loss=trained.loss,
                error=1 - best.test_accuracy,
                untrained_error=untrained_error,
                layer=best.layer,
                seconds=trained.seconds,
            )
        )


def probe_source(
    source: FeatureSource, data: ImageDataset, method: ProbeMethod, device: torch.device
) -> LayerScore:
    """Return the score of the best layer on validation images."""
    splits = read_splits("trained", source, data)
    return evaluate_probe(splits, method, ProbeConfig(), device=device).result.best


class ScalingStudy(Study[ScalingTrial]):
    """Loss and probe accuracy by size and data at equal FLOPs, and their power laws."""

    name: ClassVar[str] = "scaling"
    file: ClassVar[str] = "scaling.json"
    seeds: ClassVar[Mapping[str, int]] = {name: each.seeds for name, each in SCALES.items()}
    result: ClassVar[type[ScalingResult]] = ScalingResult

    @classmethod
    def cells(cls, scale: str) -> list[str]:
        return list(SCALES[scale].cells)

    def trial(self, cell: str, seed: int) -> ScalingTrial:
        scale = SCALES[self.plan.scale]
        where = scale.cells[cell]
        assert where.size is not None, "sizes are what is compared"
        shared = (f"size={scale.image_size}", f"batch_size={scale.batch_size}", EVALUATED)
        recipe = self.resolved(where.recipe, seed, *shared, *where.size.settings)
        recipe = for_budget(recipe, where.budget, self.plan.settings)
        return ScalingTrial(self.path, cell, recipe, where, self.probe(RIDGE))

    def write_up(self) -> ScalingResult:
        results, page = self.results(), self.path / "report.html"
        done = [each for each in results.values() if each.status == "done"]
        pairs = product(dict.fromkeys(each.recipe for each in done), LABELS)
        profiles = {pair: list(_profiles(done, *pair)) for pair in pairs}
        laws = tuple(fit_law(*pair, own) for pair, own in profiles.items())
        target = registry.find(TARGET)
        cost = {"flops": float(training_flops(target)), "parameters": float(recipe_cost(target).parameters)}
        facts = self.facts(**MEASURED, probe=self.trials[0].probe.label())
        result = ScalingResult(facts=facts, laws=laws, trials=results, target=cost).saved(page)
        count = f"{len(done)} of {len(results)} networks"
        lead = "At each budget of FLOPs, the size with the lowest loss, or the lowest error of a probe."
        write_page(page, result, list(_figures(laws, profiles)), title="Scaling", headline=count, lead=lead)
        return result


def _figures(
    laws: Sequence[ScalingLaw], profiles: Mapping[tuple[str, Measure], Sequence[Profile]]
) -> Iterator[PageFigure]:
    pairs = zip(laws, profiles.values(), strict=True)
    curves = {
        (law.recipe, LABELS[law.measure]): [each.curve() for each in own if len(each.sizes) >= FEWEST_SIZES]
        for law, own in pairs
    }
    caption = "IsoFLOP profiles: a curve is a budget, a point a network, a ring the best size."
    if curves:
        yield PageFigure("profiles", caption, plot_profiles(curves), None)
    trends = {
        title: {law.name: _trend(law, name) for law in laws if law.laws and law.measure in measures}
        for title, name, measures in PANELS
    }
    caption = "The best size by budget, with 95% intervals; dashed: the laws of all but the largest."
    if shown := {title: own for title, own in trends.items() if own}:
        yield PageFigure("laws", caption, plot_trends(shown), None)


def _profiles(done: Sequence[NetworkOutcome], recipe: str, measure: Measure) -> Iterator[Profile]:
    own = [each for each in done if each.recipe == recipe]
    for budget in sorted({each.budget for each in own}):
        same = [each for each in own if each.budget == budget]
        rows = [(each.parameters, each.tokens, getattr(each, measure)) for each in same]
        yield Profile(budget, *np.array(rows, dtype=float).T)


def _trend(law: ScalingLaw, quantity: str) -> Trend:
    best = [getattr(each, quantity) for each in law.optima]
    budgets, values = [each.budget for each in law.optima], [each.value for each in best]
    return Trend(budgets, values, [each.interval for each in best], law.laws[quantity].smaller)
