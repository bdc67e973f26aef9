"""What a study measures of a trained network: probes, color errors, encodings, biases and pictures."""

import io
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from isopix.analysis.color_error import color_error
from isopix.analysis.embeddings import LevelSimilarity, embedding_similarity
from isopix.analysis.inductive_biases import BiasMeasurements, ReceptiveField, measure_inductive_biases
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.splits import Split
from isopix.generate.complete import Reconstruction, reconstruct_images
from isopix.model.network import Network
from isopix.model.pool import Pool, pooled_width
from isopix.probing.base import ProbeMethod
from isopix.probing.baselines import PixelComponents, raw_pixels
from isopix.probing.config import ProbeConfig
from isopix.probing.features import extract_features
from isopix.probing.probe import EvaluatedProbe, evaluate_probe
from isopix.probing.splits import Features, FeatureSplit, FeatureSplits
from isopix.runs.load import LoadedRun
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import replace_file
from isopix.studies.inductive_bias.evidence import pack_correct
from isopix.studies.inductive_bias.results import STUDY_POOLS, Architecture, PoolProbes, ProbedLayers

RECONSTRUCTION_IMAGES, BIAS_IMAGES = 256, 64
EXAMPLE_DEPTH = 3  # largest depth of an example (the paper's figure 5)
EXAMPLE_IMAGES = 6
PICTURES = ("original", "pixel_mask", "target", "prediction")


class Example(NamedTuple):
    """A network that represents its block; `exact` is the fraction of masked codes predicted exactly."""

    block: str
    depth: int
    original: Images
    pixel_mask: Bool[Tensor, "B H W"]
    target: Images
    prediction: Images
    exact: float
    encoding: LevelSimilarity
    receptive_field: ReceptiveField


def measure(loaded: LoadedRun, images: Images) -> dict[str, Any]:
    """Return color errors of reconstructions, distance preservation by channel, and biases by layer."""
    seed = loaded.recipe.train.seed
    found = _reconstruct(loaded, images[:RECONSTRUCTION_IMAGES], seed)
    error = color_error(found.target, found.mask, found.prediction)
    encodings = list(map(embedding_similarity, loaded.network.backbone.stem.value_table()))
    biases = _biases(loaded.network, images, seed)
    return {
        "color_error": {
            "mean_absolute": error.mean_absolute,
            "histogram": error.histogram,
            "misplaced_fraction": error.misplaced_fraction,
            "exact_fraction": found.accuracy,
        },
        "distance_preservation": [each.distance_preservation for each in encodings],
        "effective_rank": [each.effective_rank for each in encodings],
        "translation_error": biases.translation_error,
        "permutation_error": biases.permutation_error,
        "receptive_field_mean": [each.mean_distance for each in biases.receptive_field],
        "receptive_field_radius_95": [each.radius_95 for each in biases.receptive_field],
    }


def is_example(architecture: Architecture, seed: int) -> bool:
    """Whether a trial may represent its block: with pix2vec, of the first seed, and of few blocks."""
    _, encoding, depth = architecture
    return encoding == "pix2vec" and seed == 0 and depth <= EXAMPLE_DEPTH


def save_example(path: Path, loaded: LoadedRun, images: Images) -> None:
    """Write the pictures of a network, made of its first test images."""
    found = _reconstruct(loaded, images[:EXAMPLE_IMAGES], seed=0)
    encoding = embedding_similarity(loaded.network.backbone.stem.value_table()[0])
    field = _biases(loaded.network, images, seed=0).receptive_field[-1]
    assert field.samples is not None, "it was measured"
    arrays = {
        **{name: getattr(found, name).numpy() for name in PICTURES},
        "exact": found.accuracy,
        "similarity": encoding.similarity.astype(np.float16),
        "distance_preservation": encoding.distance_preservation,
        "effective_rank": encoding.effective_rank,
        "receptive_field": field.fractions[None].astype(np.float32),
        "receptive_field_samples": field.samples,
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    replace_file(path, buffer.getvalue())


def read_example(path: Path, architecture: Architecture) -> Example:
    """Read what `save_example` wrote."""
    arrays = read_arrays(path)
    return Example(
        architecture[0],
        architecture[2],
        **{name: torch.from_numpy(arrays[name]) for name in PICTURES},
        exact=float(arrays["exact"]),
        encoding=LevelSimilarity(
            arrays["similarity"].astype(np.float64),
            float(arrays["distance_preservation"]),
            float(arrays["effective_rank"]),
        ),
        receptive_field=ReceptiveField(
            arrays["receptive_field"][-1].astype(np.float64), arrays["receptive_field_samples"]
        ),
    )


def probe_pools(loaded: LoadedRun, data: ImageDataset, method: ProbeMethod) -> dict[Pool, PoolProbes]:
    """Probe every layer under each pool, the untrained network, all pixels, and their components."""
    recipe, device = loaded.recipe, loaded.network.device
    untrained = recipe.build(loaded.network.codec).to(device).eval()
    features = [_read_pools(loaded, each, data) for each in (loaded.network, untrained)]
    pixels = _probed_layers(evaluate_probe(_splits(data, raw_pixels), method, ProbeConfig(), device=device))
    found = dict[Pool, PoolProbes]()
    for pool in STUDY_POOLS:
        trained, before = (
            evaluate_probe(each.pop(pool), method, ProbeConfig(), device=device) for each in features
        )
        components = PixelComponents.fit(
            data.train.images, pooled_width(pool, recipe.grid, recipe.model.width)
        )
        found[pool] = PoolProbes(
            network=_probed_layers(trained, keep_all=True),
            untrained=_probed_layers(before),
            raw_pixels=pixels,
            pixel_components=None if components is None else _probe(components, data, method, device),
            majority=trained.result.majority_accuracy,
        )
    return found


def _read_pools(loaded: LoadedRun, network: Network, data: ImageDataset) -> dict[Pool, FeatureSplits]:
    width, precision = loaded.recipe.model.width, loaded.recipe.train.precision_on(network.device)

    def read(images: Images) -> Features:
        return extract_features(network, images, pool=STUDY_POOLS, precision=precision)

    together = _splits(data, read)
    ends = accumulate((pooled_width(pool, loaded.recipe.grid, width) for pool in STUDY_POOLS), initial=0)

    def select(columns: slice) -> FeatureSplits:
        return together.map(lambda split: split.map(lambda features: features[..., columns]))

    return {pool: select(slice(*pair)) for pool, pair in zip(STUDY_POOLS, pairwise(ends), strict=True)}


def _probe(
    components: PixelComponents, data: ImageDataset, method: ProbeMethod, device: torch.device
) -> ProbedLayers:
    reduced = _splits(data, lambda images: components.project(raw_pixels(images)))
    return _probed_layers(evaluate_probe(reduced, method, ProbeConfig(), device=device))


def _splits(data: ImageDataset, read: Callable[[Images], Features]) -> FeatureSplits:
    def features(split: Split) -> FeatureSplit:
        assert split.labels is not None, "a study requires labels"
        return FeatureSplit(read(split.images[:]), split.labels, split.groups)

    return FeatureSplits(features(data.train), features(data.validation), features(data.test))


def _probed_layers(probed: EvaluatedProbe, *, keep_all: bool = False) -> ProbedLayers:
    layers, correct = probed.result.layers, probed.correct.cpu().numpy()
    kept = range(len(layers)) if keep_all else [probed.result.best_index]
    return ProbedLayers(
        test_accuracies=tuple(score.test_accuracy for score in layers),
        validation_accuracies=tuple(score.val_accuracy for score in layers),
        best_layer=probed.result.best_index,
        correct=tuple(pack_correct(correct[layer]) for layer in kept),
        num_images=correct.shape[1],
    )


def _biases(network: Network, images: Images, seed: int) -> BiasMeasurements:
    return measure_inductive_biases(network, images[:BIAS_IMAGES], generator(seed, "biases"))


def _reconstruct(loaded: LoadedRun, images: Images, seed: int) -> Reconstruction:
    images = images.to(loaded.network.device)
    return reconstruct_images(loaded.model, images, generator=generator(seed, "hide"))
