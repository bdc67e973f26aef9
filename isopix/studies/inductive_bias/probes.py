"""Probes of a trained network and of its baselines under several pools, with one forward pass of an image."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import torch

from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.splits import Split
from isopix.model.network import Network
from isopix.model.pool import Pool, pooled_width
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_extraction import PixelComponents
from isopix.probing.feature_splits import Features, FeatureSplit, FeatureSplits
from isopix.probing.features import extract_features, raw_pixels
from isopix.probing.probe import EvaluatedProbe, evaluate_probe
from isopix.runs.load import LoadedRun
from isopix.studies.inductive_bias.trials import PoolProbes, ProbedLayers, pack_correct


def probe_pools(
    loaded: LoadedRun, data: ImageDataset, config: ProbeConfig, pools: Sequence[Pool]
) -> dict[Pool, PoolProbes]:
    """Probe every layer of a run's network under each pool, the untrained network likewise, all pixels, and
    as many principal components of the pixels as the network has features, where these are fewer.
    """
    recipe, device = loaded.recipe, loaded.network.device
    untrained = recipe.build(loaded.network.codec).to(device).eval()
    features = {
        "trained": _read_pools(loaded, loaded.network, data, config, pools),
        "untrained": _read_pools(loaded, untrained, data, config, pools),
    }
    pixels = _feature_splits(data, raw_pixels)
    all_pixels = _layers(evaluate_probe(pixels, config, device=device), keep_all=False)
    found = dict[Pool, PoolProbes]()
    for pool in pools:
        own = {
            name: evaluate_probe(read.pop(pool), replace(config, pool=pool), device=device)
            for name, read in features.items()
        }
        count = pooled_width(pool, recipe.grid, recipe.model.width)
        found[pool] = PoolProbes(
            network=_layers(own["trained"], keep_all=True),
            untrained=_layers(own["untrained"], keep_all=False),
            raw_pixels=all_pixels,
            pixel_components=_probe_components(data, count, config, device),
            majority=own["trained"].result.majority_accuracy,
        )
    return found


def _read_pools(
    loaded: LoadedRun, network: Network, data: ImageDataset, config: ProbeConfig, pools: Sequence[Pool]
) -> dict[Pool, FeatureSplits]:
    """Return the features of every layer by pool."""
    width, precision = loaded.recipe.model.width, loaded.recipe.train.precision_on(network.device)

    def read(images: Images) -> Features:
        return extract_features(network, images, features=config.features, pool=pools, precision=precision)

    together = _feature_splits(data, read)
    ends = accumulate(pooled_width(pool, loaded.recipe.grid, width) for pool in pools)
    columns = [slice(*pair) for pair in pairwise([0, *ends])]

    def select(columns: slice) -> FeatureSplits:
        return together.map(lambda split: split.map(lambda features: features[..., columns]))

    return {pool: select(each) for pool, each in zip(pools, columns, strict=True)}


def _probe_components(
    data: ImageDataset, count: int, config: ProbeConfig, device: torch.device
) -> ProbedLayers | None:
    """Probe the first principal components of the pixels; None if there are not fewer than pixels."""
    components = PixelComponents.fit(data.train.images, count)
    if components is None:
        return None
    reduced = _feature_splits(data, lambda images: components.project(raw_pixels(images)))
    return _layers(evaluate_probe(reduced, config, device=device), keep_all=False)


def _feature_splits(data: ImageDataset, read: Callable[[Images], Features]) -> FeatureSplits:
    def features(split: Split) -> FeatureSplit:
        assert split.labels is not None, "a study requires labels"
        return FeatureSplit(read(split.images[:]), split.labels, split.groups)

    return FeatureSplits(features(data.train), features(data.validation), features(data.test))


def _layers(probed: EvaluatedProbe, *, keep_all: bool) -> ProbedLayers:
    """Return the accuracies of every layer, and which test images all layers, or the best one, get right."""
    layers, correct = probed.result.layers, probed.correct.cpu().numpy()
    kept = range(len(layers)) if keep_all else [probed.result.best_index]
    return ProbedLayers(
        test_accuracies=tuple(score.test_accuracy for score in layers),
        validation_accuracies=tuple(score.val_accuracy for score in layers),
        best_layer=probed.result.best_index,
        correct=tuple(pack_correct(correct[layer]) for layer in kept),
        num_images=correct.shape[1],
    )
