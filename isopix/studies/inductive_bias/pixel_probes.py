"""Probes of raw pixels and of their principal components: the same for all networks of a study, and kept."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from isopix.core.config import from_dict, to_dict
from isopix.core.types import Images
from isopix.core.version import __version__
from isopix.data.dataset import ImageDataset
from isopix.data.splits import Split
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_extraction import PixelComponents
from isopix.probing.feature_splits import Features, FeatureSplit, FeatureSplits
from isopix.probing.features import raw_pixels
from isopix.probing.probe import EvaluatedProbe, evaluate_probe
from isopix.storage.atomic import read_json, write_json
from isopix.studies.inductive_bias.trials import ProbedLayers, pack_correct

VERSIONS = {"isopix": __version__, "torch": str(torch.__version__)}


@dataclass(frozen=True)
class PixelProbes:
    """`components` are those of as many principal components as a name says, None where these are not fewer
    than the pixels; `probed` says of which images, and how.
    """

    probed: dict[str, Any]
    pixels: ProbedLayers
    components: dict[str, ProbedLayers | None]


def probe_pixels(
    data: ImageDataset, config: ProbeConfig, counts: Sequence[int], *, device: torch.device, file: Path
) -> PixelProbes:
    """Probe all pixels and their first principal components, of each of these numbers; from `file` if it is
    of the same images and probe, else computed and written there.
    """
    splits = {name: len(getattr(data, name)) for name in ("train", "validation", "test")}
    probed = {"data": data.fingerprint, "images": splits, "probe": to_dict(config), **VERSIONS}
    known = _read(file, probed)
    if known is not None and all(str(count) in known.components for count in counts):
        return known
    pixels = feature_splits(data, raw_pixels)
    found = PixelProbes(
        probed,
        probed_layers(evaluate_probe(pixels, config, device=device), keep_all=False),
        {str(count): _probe_components(data, count, config, device) for count in counts},
    )
    write_json(file, {"kind": "pixel probes", **asdict(found)})
    return found


def feature_splits(data: ImageDataset, read: Callable[[Images], Features]) -> FeatureSplits:
    """Return the features that `read` returns of each split, with labels and groups."""

    def features(split: Split) -> FeatureSplit:
        assert split.labels is not None, "a study requires labels"
        return FeatureSplit(read(split.images[:]), split.labels, split.groups)

    return FeatureSplits(features(data.train), features(data.validation), features(data.test))


def probed_layers(probed: EvaluatedProbe, *, keep_all: bool) -> ProbedLayers:
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


def _probe_components(
    data: ImageDataset, count: int, config: ProbeConfig, device: torch.device
) -> ProbedLayers | None:
    """Probe the first principal components of the pixels; None if there are not fewer than pixels."""
    components = PixelComponents.fit(data.train.images, count)
    if components is None:
        return None
    reduced = feature_splits(data, lambda images: components.project(raw_pixels(images)))
    return probed_layers(evaluate_probe(reduced, config, device=device), keep_all=False)


def _read(file: Path, probed: dict[str, Any]) -> PixelProbes | None:
    """Return the probes of a file; None if there is none, it is damaged, or of other images or probes."""
    if not file.is_file():
        return None
    try:
        values = read_json(file)
        found = from_dict(PixelProbes, {name: each for name, each in values.items() if name != "kind"})
        for each in (found.pixels, *found.components.values()):
            if each is not None:
                each.check()
    except (ValueError, KeyError):
        return None
    return found if found.probed == probed else None
