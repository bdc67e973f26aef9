"""The paper's seven figures, from the trials of a study."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isopix.analysis.embeddings import (
    LevelSimilarity,
    continuous_similarity,
    fourier_similarity,
    one_hot_similarity,
)
from isopix.core.random import generator
from isopix.model.positions import Pool
from isopix.model.stems.pixels import FourierPixelEmbeddingSpec
from isopix.plots import study, style
from isopix.plots.embeddings import plot_level_similarity
from isopix.plots.images import reconstruction_grid
from isopix.plots.study import MeanStd, PoolResults, TrialGroup
from isopix.plots.style import block_order, display_name
from isopix.probing.results import PIXEL_COMPONENTS, RAW_PIXELS
from isopix.reporting.section import PageFigure
from isopix.storage.arrays import Arrays, read_arrays
from isopix.studies.inductive_bias.results import Architecture, Trial
from isopix.studies.inductive_bias.trial import BiasTrial

SIGMAS = (0.1, 0.3, 1.0, 3.0)
LAYERS_DEPTH = 6  # largest depth whose layers are shown by encoding (the paper's figure 7)
LAYERS_BLOCKS = ("mixer", "transformer-1", "transformer-1-nopos")


class Example(NamedTuple):
    """A network that represents its block, and the arrays of its file (`BiasTrial.example`)."""

    block: str
    depth: int
    arrays: Arrays

    def pictures(self, name: str) -> Tensor:
        """Return test images: the `original`, its `pixel_mask` [B H W], the `target` or the `prediction`."""
        return torch.from_numpy(self.arrays[name])

    @property
    def encoding(self) -> LevelSimilarity:
        similarity, *numbers = (self.arrays[name].astype(np.float64) for name in LevelSimilarity._fields)
        return LevelSimilarity(similarity, *map(float, numbers))


def read_examples(done: Sequence[BiasTrial]) -> list[Example]:
    """Return the examples among trials that are done."""
    found = [spec for spec in done if spec.example.is_file()]
    return [Example(spec.architecture[0], spec.architecture[2], read_arrays(spec.example)) for spec in found]


def study_figures(trials: Sequence[Trial], examples: Sequence[Example]) -> Iterator[PageFigure]:
    """Yield every figure that the trials and examples allow, in the paper's order."""
    shown = _comparable(examples)
    pools = [_results(trials, pool) for pool in trials[0].probes] if trials else []
    if shown:
        yield _reconstructions(shown)
    yield from _encodings()
    if pools:
        caption = "Figure 4. Test accuracy against the validation loss, before (hollow) and after training."
        yield PageFigure("figure-4", caption, study.plot_study_loss(pools), _numbers(pools))
    if shown:
        named = {display_name(each.block): each.encoding for each in shown}
        caption = "Figure 5. Cosine similarity of the learned vectors of each pair of levels of red."
        yield PageFigure("figure-5", caption, plot_level_similarity(named), _similarities(named))
    yield from _layers(pools, trials)


def group_trials(trials: Sequence[Trial], pool: Pool, *, untrained: bool = False) -> Iterator[TrialGroup]:
    """Yield the mean over seeds of each architecture, in the order of first appearance."""
    groups: dict[Architecture, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.architecture, []).append(trial)
    for architecture, same in groups.items():
        probes = [trial.probes[pool] for trial in same]
        shown = [each.untrained if untrained else each.network for each in probes]
        layers = zip(*(each.test_accuracies for each in shown), strict=True)
        yield TrialGroup(
            *architecture,
            loss=mean_std([trial.loss for trial in same]),
            accuracy=mean_std([each.test_accuracy for each in shown]),
            layers=tuple(mean_std(layer) for layer in layers),
            untrained=mean_std([each.untrained.test_accuracy for each in probes]),
        )


def mean_std(values: Sequence[float]) -> MeanStd:
    """Return mean and standard deviation (n - 1) of at least one number."""
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return MeanStd(float(np.mean(values)), std, len(values))


def _comparable(examples: Sequence[Example]) -> list[Example]:
    depths: dict[str, set[int]] = {}
    for each in examples:
        depths.setdefault(each.block, set()).add(each.depth)
    shared = set.intersection(*depths.values()) if depths else set()
    found = {each.block: each for each in examples if shared and each.depth == max(shared)}
    return [found[block] for block in block_order(found)]


def _results(trials: Sequence[Trial], pool: Pool) -> PoolResults:
    probes = [trial.probes[pool] for trial in trials]
    shared = {
        RAW_PIXELS: [each.raw_pixels.test_accuracy for each in probes],
        PIXEL_COMPONENTS: [each.pixel_components.test_accuracy for each in probes if each.pixel_components],
        "chance": [each.majority for each in probes],
    }
    baselines = {name: mean(found) for name, found in shared.items() if found}
    untrained = list(group_trials(trials, pool, untrained=True))
    return PoolResults(pool, list(group_trials(trials, pool)), untrained, baselines)


def _reconstructions(networks: Sequence[Example]) -> PageFigure:
    first = networks[0]
    predictions = {display_name(each.block): each.pictures("prediction") for each in networks}
    original, mask, target = map(first.pictures, ("original", "pixel_mask", "target"))
    picture = np.asarray(reconstruction_grid(original, mask, predictions, target))
    figure = style.new_figure(style.PAGE_WIDTH * picture.shape[0] / picture.shape[1])
    axes = figure.subplots()
    axes.imshow(picture, interpolation="none")
    axes.set_axis_off()
    caption = f"Figure 1. Test images, masked inputs, and reconstructions by networks of depth {first.depth}."
    exact = {each.block: float(each.arrays["exact"]) for each in networks}
    return PageFigure("figure-1", caption, figure, exact)


def _layers(pools: Sequence[PoolResults], trials: Sequence[Trial]) -> Iterator[PageFigure]:
    for each in pools if any(trial.block == "conv" for trial in trials) else ():
        caption = (
            f"Figure 6, {display_name(each.pool)}. Test accuracy by depth, and by layer of convolutions."
        )
        yield PageFigure(f"figure-6-{each.pool}", caption, study.plot_study_depth(each), _numbers([each]))
    shallow = {trial.block for trial in trials if trial.depth <= LAYERS_DEPTH}
    blocks = [block for block in LAYERS_BLOCKS if block in shallow]
    for each in pools if blocks else ():
        drawn = study.plot_study_layers(each, blocks, LAYERS_DEPTH)
        caption = f"Figure 7, {display_name(each.pool)}. Test accuracy by layer and encoding."
        yield PageFigure(f"figure-7-{each.pool}", caption, drawn, _numbers([each]))


def _encodings() -> Iterator[PageFigure]:
    draws = torch.randn(FourierPixelEmbeddingSpec().frequencies, generator=generator(0, "figure"))
    named = {
        "one-hot": one_hot_similarity(),
        "Fourier, σ = 1": fourier_similarity(draws),
        "continuous": continuous_similarity(),
    }
    caption = "Figure 2. Cosine similarity of the levels of a channel as encoded, before any learned layer."
    yield PageFigure("figure-2", caption, plot_level_similarity(named), _similarities(named))
    swept = {f"σ = {sigma:g}": fourier_similarity(sigma * draws) for sigma in SIGMAS}
    caption = "Figure 3. Cosine similarity of Fourier features with the same random frequencies times σ."
    yield PageFigure("figure-3", caption, plot_level_similarity(swept), _similarities(swept))


def _similarities(named: Mapping[str, LevelSimilarity]) -> dict[str, Any]:
    return {
        name: each._replace(similarity=each.similarity.tolist())._asdict() for name, each in named.items()
    }


def _numbers(pools: Sequence[PoolResults]) -> dict[str, Any]:
    return {
        each.pool: {
            "baselines": each.baselines,
            "trained": {"-".join(map(str, group[:3])): group[3:] for group in each.trained},
            "untrained": {"-".join(map(str, group[:3])): group[3:] for group in each.untrained},
        }
        for each in pools
    }
