"""Other methods at equal data and FLOPs: masked, next-patch and denoising regression, filters, and HOG."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import torch

from isopix.data.dataset import ImageDataset
from isopix.data.load import load_dataset
from isopix.plots.scaling import plot_methods
from isopix.probing.baselines import PixelFeatures
from isopix.probing.features import FeatureSource
from isopix.probing.patch_features import HogFeatures, PatchFeatures, fitting_flops
from isopix.probing.probe import ProbeMethod
from isopix.reporting.section import PageFigure, write_page
from isopix.studies.scaling.results import BaselinesResult, NetworkOutcome
from isopix.studies.scaling.study import PROBE_IMAGES, NetworkCell, ScalingTrial, for_budget, probe_source
from isopix.studies.study import Study
from isopix.studies.trial import PROBED, RIDGE, StudyTrial, recorded_environment, sampled

NUM_FILTERS = 1600
SMALL_IMAGES = "size=16"  # of pixel models, which see each pixel as a token
RECIPES: Mapping[str, tuple[str, ...]] = {
    "igpt.tiny": (SMALL_IMAGES, "batch_size=64", "lr=0.006"),
    "modern.tiny": (SMALL_IMAGES, "batch_size=64"),
    "patches.mae": (),
    "patches.simmim": (),
    "patches.aim": (),
    "patches.denoising": (),
}
BUDGETS = {"tiny": (4e12, 1.6e13), "small": (4e12, 1.6e13, 6.4e13)}
FLOPS = {"k-means": fitting_flops(NUM_FILTERS)}  # of features without a network; none for all others
Fit = Callable[[ImageDataset, int], FeatureSource]  # by training images and a seed
FEATURES: Mapping[str, Fit] = {
    "raw pixels": lambda data, seed: PixelFeatures(),
    "HOG": lambda data, seed: HogFeatures(),
    "random filters": lambda data, seed: PatchFeatures.fit(
        "random", data.train.images, NUM_FILTERS, seed=seed
    ),
    "k-means": lambda data, seed: PatchFeatures.fit("kmeans", data.train.images, NUM_FILTERS, seed=seed),
}


@dataclass(frozen=True)
class FeatureTrial(StudyTrial):
    """Features that no network learns, fitted to training images and probed."""

    outcome: ClassVar[type[NetworkOutcome]] = NetworkOutcome

    probe: ProbeMethod

    @property
    def training_flops(self) -> int:
        return FLOPS.get(self.cell, 0)

    def measure(self, device: torch.device) -> None:
        data = load_dataset(self.recipe.data)
        source = FEATURES[self.cell](data, self.recipe.train.seed)
        best = probe_source(source, sampled(data, PROBED), self.probe, device)
        facts = {**self.recipe.train.environment(device), "data": data.fingerprint}
        found = NetworkOutcome(status="done", environment=recorded_environment(facts), recipe=self.cell)
        self.write(replace(found, flops=self.training_flops, error=1 - best.test_accuracy))


class BaselinesStudy(Study[StudyTrial]):
    """Probe accuracy of other methods at equal data and FLOPs."""

    name: ClassVar[str] = "baselines"
    file: ClassVar[str] = "baselines.json"
    seeds: ClassVar[Mapping[str, int]] = dict.fromkeys(BUDGETS, 3)
    result: ClassVar[type[BaselinesResult]] = BaselinesResult

    @classmethod
    def cells(cls, scale: str) -> list[str]:
        return [*FEATURES, *_networks(scale)]

    def trial(self, cell: str, seed: int) -> StudyTrial:
        probe, network = self.probe(RIDGE), _networks(self.plan.scale).get(cell)
        if network is None:
            return FeatureTrial(self.path, cell, self.resolved("patches.mae", seed), probe)
        recipe = self.resolved(network.recipe, seed, *RECIPES[network.recipe])
        recipe = for_budget(recipe, network.budget, self.plan.settings)
        return ScalingTrial(self.path, cell, recipe, network, probe)

    def write_up(self) -> BaselinesResult:
        images = f"{self.trials[0].recipe.data.source}; 16 × 16 of pixel models, 32 × 32 of others"
        more = {"images": images, "probe": self.probe(RIDGE).label(), "probe images": PROBE_IMAGES}
        page = self.path / "report.html"
        caption = "Test accuracy of the best layer's probe; dashed: no training."
        result = BaselinesResult(facts=self.facts(**more), trials=self.results()).saved(page)
        points, headline = result.points(), "Linear probes at equal data and FLOPs"
        figures = [PageFigure("methods", caption, plot_methods(points), None)] if points else []
        write_page(page, result, figures, title="Baselines", headline=headline, lead=caption)
        return result


def _networks(scale: str) -> dict[str, NetworkCell]:
    cells = [NetworkCell(*each) for each in product(RECIPES, BUDGETS[scale])]
    return {str(each): each for each in cells}
