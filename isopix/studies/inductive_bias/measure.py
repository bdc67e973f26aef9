"""What a study measures of a trained network: probes, color errors, encodings, biases and pictures."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isopix.analysis.embeddings import LevelSimilarity, embedding_similarity
from isopix.analysis.inductive_biases import ReceptiveField, color_error, measure_inductive_biases
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.splits import Split
from isopix.generate.complete import Reconstruction, reconstruct_images
from isopix.model.network import Network
from isopix.model.positions import Pool, pooled_width
from isopix.probing.baselines import PixelComponents, raw_pixels
from isopix.probing.config import ProbeConfig
from isopix.probing.features import extract_features
from isopix.probing.probe import EvaluatedProbe, ProbeMethod, evaluate_probe
from isopix.probing.splits import Features, FeatureSplit, FeatureSplits
from isopix.runs.load import LoadedRun
from isopix.storage.arrays import Arrays
from isopix.storage.atomic import replace_file
from isopix.studies.inductive_bias.evidence import pack_correct
from isopix.studies.inductive_bias.results import STUDY_POOLS, PoolProbes, ProbedLayers

RECONSTRUCTION_IMAGES, BIAS_IMAGES, EXAMPLE_IMAGES = 256, 64, 6
PICTURES = ("original", "pixel_mask", "target", "prediction")


class Example(NamedTuple):
    """A network that represents its block, and the arrays of its file (`measure`)."""

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

    @property
    def receptive_field(self) -> ReceptiveField:
        fractions = self.arrays["receptive_field"][-1].astype(np.float64)
        return ReceptiveField(fractions, self.arrays["receptive_field_samples"])


def measure(loaded: LoadedRun, images: Images, example: Path | None = None) -> dict[str, Any]:
    """Return color errors of reconstructions, distance preservation by channel, and biases by layer.

    The pictures and the last layer's receptive field are written to the file `example`, if one is given.
    """
    seed = loaded.recipe.train.seed
    found = _reconstruct(loaded, images[:RECONSTRUCTION_IMAGES], seed)
    error = color_error(found.target, found.mask, found.prediction)
    encodings = list(map(embedding_similarity, loaded.network.backbone.stem.value_table()))
    biases = measure_inductive_biases(loaded.network, images[:BIAS_IMAGES], generator(seed, "biases"))
    if example is not None:
        pictures = _reconstruct(loaded, images[:EXAMPLE_IMAGES], seed)
        _write_example(example, pictures, encodings[0], biases.receptive_field[-1])
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


def _write_example(path: Path, found: Reconstruction, red: LevelSimilarity, field: ReceptiveField) -> None:
    assert field.samples is not None, "it was measured"
    arrays = {
        **{name: getattr(found, name).numpy() for name in PICTURES},
        "exact": found.accuracy,
        **red._replace(similarity=red.similarity.astype(np.float16))._asdict(),
        "receptive_field": field.fractions[None].astype(np.float32),
        "receptive_field_samples": field.samples,
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    replace_file(path, buffer.getvalue())


def probe_pools(loaded: LoadedRun, data: ImageDataset, method: ProbeMethod) -> dict[Pool, PoolProbes]:
    """Probe every layer under each pool, the untrained network, all pixels, and their components."""
    recipe, device = loaded.recipe, loaded.network.device
    precision = recipe.train.precision_on(device)
    widths = [pooled_width(pool, recipe.grid, recipe.model.width) for pool in STUDY_POOLS]

    def read(network: Network) -> FeatureSplits:
        return _splits(
            data, lambda images: extract_features(network, images, pool=STUDY_POOLS, precision=precision)
        )

    def probe(splits: FeatureSplits) -> EvaluatedProbe:
        return evaluate_probe(splits, method, ProbeConfig(), device=device)

    def probe_pool(together: FeatureSplits, pool: int) -> EvaluatedProbe:
        return probe(together.map(lambda split: split.map(lambda each: torch.split(each, widths, -1)[pool])))

    def probe_components(fitted: PixelComponents) -> ProbedLayers:
        return _probed_layers(probe(_splits(data, lambda images: fitted.project(raw_pixels(images)))))

    trained = read(loaded.network)
    untrained = read(recipe.build(loaded.network.codec).to(device).eval())
    pixels, found = _probed_layers(probe(_splits(data, raw_pixels))), dict[Pool, PoolProbes]()
    for index, pool in enumerate(STUDY_POOLS):
        network = probe_pool(trained, index)
        components = PixelComponents.fit(data.train.images, widths[index])
        found[pool] = PoolProbes(
            network=_probed_layers(network, keep_all=True),
            untrained=_probed_layers(probe_pool(untrained, index)),
            raw_pixels=pixels,
            pixel_components=None if components is None else probe_components(components),
            majority=network.result.majority_accuracy,
        )
    return found


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


def _reconstruct(loaded: LoadedRun, images: Images, seed: int) -> Reconstruction:
    images = images.to(loaded.network.device)
    return reconstruct_images(loaded.model, images, generator=generator(seed, "hide"))
