"""Baselines of a probe: an untrained network, raw pixels and shuffled labels."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median, variance
from typing import Any, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.core.random import generator
from isopix.core.stats import Z_95, mean_half_width
from isopix.core.types import Groups, Images, ImageSequence, image_batches
from isopix.data.dataset import ImageDataset
from isopix.model.positions import default_pool, pooled_width, require_pool
from isopix.objectives.base import PretrainModel
from isopix.probing.config import ProbeConfig
from isopix.probing.features import FeatureSource, NetworkFeatures, View
from isopix.probing.probe import EvaluatedProbe, ProbeMethod, evaluate_probe, refit_on_validation
from isopix.probing.results import PIXEL_COMPONENTS, RAW_PIXELS, Gain, LayerScore, LayerScores
from isopix.probing.splits import Features, FeatureSplit, FeatureSplits
from isopix.storage.provenance import hash_bytes
from isopix.storage.result import EnsembleAccuracy

NUM_PERMUTATIONS = 5  # of the labels; the accuracy of one may be far from chance, as images are correlated
PCA_IMAGES = 10_000  # to which principal components are fitted
PCA_ITERATIONS = 4  # of the randomized SVD (Halko et al. 2011, algorithm 4.4)
PCA_OVERSAMPLING = 32  # directions beyond those that are kept, which make the last of these accurate
PCA_TOLERANCE = 1e-5  # components of a smaller scale, relative to the first, are rounding errors

ReadFeatures = Callable[[], FeatureSplits]


def feature_sources(
    trained: NetworkFeatures, untrained: PretrainModel, data: ImageDataset, width: int
) -> dict[str, FeatureSource]:
    """Return the features of a network, the same untrained, raw pixels, and their principal components."""
    network, config = trained.model.network, trained.config
    if config.mask_ensemble and not trained.model.objective.masks_input:
        given = f"mask_ensemble is {config.mask_ensemble}"
        raise ValueError(f"{given}, but an autoregressive model masks nothing; allowed: 0")
    pool = config.pool or default_pool(network.backbone.num_prefix_tokens)
    require_pool(pool, network.backbone.grid)
    sources: dict[str, FeatureSource] = {
        "trained": trained,
        "untrained": replace(trained, model=untrained),
        RAW_PIXELS: PixelFeatures(),
    }
    count = pooled_width(pool, network.backbone.grid, width)
    components = PixelComponents.fit(data.train.images, count)
    return sources if components is None else {**sources, PIXEL_COMPONENTS: components}


class ProbedNetwork(NamedTuple):
    """The probe of a network and of its baselines, the gain over the best of them, and the refit."""

    network: LayerScores
    baselines: dict[str, LayerScores]
    gain: Gain | None
    refit: LayerScore | None


def probe_with_baselines(
    network: ReadFeatures,
    baselines: Mapping[str, ReadFeatures],
    method: ProbeMethod,
    config: ProbeConfig,
    *,
    device: torch.device,
) -> ProbedNetwork:
    """Probe a network, each baseline, and the best layer with shuffled labels; refit if asked to."""
    splits = network()
    probed = evaluate_probe(splits, method, config, device=device)
    index = probed.result.best_index
    best_layer = splits.select_layers(index, index + 1).map(lambda split: split.map(torch.clone))
    best_layer = replace(best_layer, first_layer=0)
    del splits  # the features of one network are in memory at a time
    others = {name: evaluate_probe(read(), method, config, device=device) for name, read in baselines.items()}
    found = {name: other.result for name, other in others.items()}
    found["shuffled labels"] = shuffled_label_baseline(best_layer, method, config, device=device)
    refit = None
    if config.refit_on_validation:
        refit = refit_on_validation(best_layer, probed.result.best, method, config, device=device)
    gain = _gain_over_best(probed, others, best_layer.test.groups) if others else None
    return ProbedNetwork(probed.result, found, gain, refit)


def _gain_over_best(
    probed: EvaluatedProbe, baselines: Mapping[str, EvaluatedProbe], groups: Groups | None
) -> Gain:
    name = max(baselines, key=lambda each: baselines[each].result.best.test_accuracy)
    own, other = (each.correct[each.result.best_index].cpu().double() for each in (probed, baselines[name]))
    difference = (own - other).numpy()
    half_width = mean_half_width(difference, None if groups is None else groups.cpu().numpy())
    center = float(difference.mean())
    if half_width is None:  # one image, or one group
        return Gain(name, center, (-1.0, 1.0))
    return Gain(name, center, (center - half_width, center + half_width))


def shuffled_label_baseline(
    splits: FeatureSplits, method: ProbeMethod, config: ProbeConfig, *, device: torch.device
) -> LayerScores:
    """Probe one layer anew for each of NUM_PERMUTATIONS random permutations of its labels.

    Accuracies and numbers of the fit are means, what was selected is a median. The interval is 1.96 standard
    deviations on new test images: the variance over permutations plus that of one accuracy.
    """
    shuffled = (shuffle_labels(splits, config.seed, i) for i in range(NUM_PERMUTATIONS))
    results = [evaluate_probe(each, method, config, device=device).result for each in shuffled]
    return replace(results[0], layers=(_average([result.best for result in results]),), warnings=())


def shuffle_labels(splits: FeatureSplits, seed: int, permutation: int = 0) -> FeatureSplits:
    """Permute the labels of train and of validation, so that features and labels are independent."""
    random = generator(seed, "probe.shuffle", permutation)

    def shuffled(split: FeatureSplit) -> FeatureSplit:
        order = torch.randperm(len(split.labels), generator=random).to(split.labels.device)
        return replace(split, labels=split.labels[order])

    return replace(splits, train=shuffled(splits.train), validation=shuffled(splits.validation))


def _average(scores: Sequence[LayerScore]) -> LayerScore:
    accuracy = mean(score.test_accuracy for score in scores)
    resampled = mean(((score.interval[1] - score.interval[0]) / 2 / Z_95) ** 2 for score in scores)
    half_width = Z_95 * math.sqrt(variance([score.test_accuracy for score in scores]) + resampled)
    ensembles = [(each.single_mask, each.mean_probability) for score in scores if (each := score.ensemble)]
    return replace(
        scores[0],
        val_accuracy=mean(score.val_accuracy for score in scores),
        test_accuracy=accuracy,
        interval=(max(0.0, accuracy - half_width), min(1.0, accuracy + half_width)),
        selected={name: median(each.selected[name] for each in scores) for name in scores[0].selected},
        fit={name: mean(each.fit[name] for each in scores) for name in scores[0].fit},
        ensemble=EnsembleAccuracy(*map(mean, zip(*ensembles, strict=True))) if ensembles else None,
    )


def raw_pixels(images: Images) -> Float[Tensor, "1 B D"]:
    """Return all pixels of each image, in [-1, 1], as one layer of features: a baseline without a network."""
    return rearrange(images, "b c h w -> 1 b (c h w)").float() / 127.5 - 1


class PixelFeatures(FeatureSource):
    def read(self, view: View) -> Iterator[Features]:
        return map(raw_pixels, image_batches(view.images))

    def identity(self) -> str:
        return "raw pixels"


@dataclass(frozen=True)
class PixelComponents(FeatureSource):
    """A projection [P D] of the differences of raw pixels from their mean [P] onto principal components."""

    mean: Float[Tensor, " P"]
    components: Float[Tensor, "P D"]

    @classmethod
    def fit(cls, images: ImageSequence, count: int) -> "PixelComponents | None":
        """Fit at most `count` components to at most PCA_IMAGES images; None if not fewer than pixels."""
        from sklearn.utils.extmath import randomized_svd  # noqa: PLC0415  its import takes a second

        if count >= images.shape[1:].numel():
            return None
        spread = torch.linspace(0, len(images) - 1, min(len(images), PCA_IMAGES)).long()
        pixels = raw_pixels(images[spread])[0]
        center = pixels.mean(0)
        options: Any = {"n_oversamples": PCA_OVERSAMPLING, "n_iter": PCA_ITERATIONS, "random_state": 0}
        _, scales, directions = randomized_svd((pixels - center).numpy(), count, **options)
        kept = directions[scales >= PCA_TOLERANCE * scales[0]]
        return cls(center, torch.from_numpy(kept.T.copy()))

    def read(self, view: View) -> Iterator[Features]:
        return map(self.project, PixelFeatures().read(view))

    def project(self, pixels: Float[Tensor, "1 B P"]) -> Float[Tensor, "1 B D"]:
        return (pixels - self.mean) @ self.components

    def identity(self) -> str:
        return hash_bytes(self.mean.numpy().tobytes(), self.components.numpy().tobytes())
