"""Parts of the captions of the study's figures: sample sizes, what bars and lines are, and findings."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from isopix.core.stats import spearman
from isopix.plots import style
from isopix.plots.study import PoolResults
from isopix.plots.study_marks import depth_text, display_name
from isopix.reporting.section import percent
from isopix.studies.inductive_bias.bias_means import Layer, LayerBiases
from isopix.studies.inductive_bias.examples import Example
from isopix.studies.inductive_bias.trials import Trial

CHANCE = "chance"
BASELINES_NOTE = (
    "Gray lines: probes of raw pixels, of as many principal components of the pixels as the network has "
    "features (PCA) where these are fewer, and chance, the largest class; baselines that coincide "
    "share a line."
)
LEVELS_NOTE = (
    "Level 0 is at the top left; ρ: distance preservation, the rank correlation of similarity and nearness "
    "of two levels; rank: effective rank, the number of dimensions that the encoding uses."
)
INPUT_NOTE = (
    "The table of biases gives both of the vectors after the learned layer, whose bias changes angles: there "
    "continuous levels need not have ρ = 1."
)
CLAIMS_NOTE = (
    "All contrasts of the claims, by unit; those of a unit share an axis. Each is positive if its claim "
    "(letter) is true. Mark: mean; bar: 95 % interval over new seeds, encodings and "
    "depths, and test images; both pools: the same under both. Shaded: smaller than the effect that the "
    "study is planned to detect. A number after a block is its depth."
)
PROBE_NOTE = "Linear probe of the layer that validation images choose, on"


def network_size(networks: Sequence[Example]) -> str:
    """Return the size of networks, as `3 blocks with pix2vec, seed 0`."""
    return f"{depth_text(networks[0].depth)} with pix2vec, seed 0"


def trained_levels(example: Example) -> str:
    """Return how many levels have vectors that training may have changed."""
    count = len(np.unique(example.original[:, 0].numpy()))
    return (
        "Only vectors of levels that occur in training images are trained, few with gray digits; "
        f"red has {count} of 256 levels in the images of figure 1."
    )


def biases_sample(networks: Sequence[Example], biases: Mapping[str, LayerBiases]) -> str:
    """Return size and number of networks and images, and what the bars are."""
    images, seeds = count_changed_images(networks[0]), _range(each.seeds for each in biases.values())
    if seeds == "1":
        return f"{network_size(networks)}; one per block; {images}; no error bars"
    size = f"{depth_text(networks[0].depth)} with pix2vec"
    return f"{size}; {images} for each network; mean and standard deviation (bars) over {seeds} seeds"


def least_translation(means: Mapping[str, Sequence[Layer]]) -> str:
    """Return which block has the smallest translation error after the last block."""
    last = {block: layers[-1]["translation_error"] for block, layers in means.items()}
    block = min(last, key=lambda each: last[each])
    error = style.decimal(last[block], 3)
    return f"Smallest translation error of the last layer: {display_name(block)}, {error}."


def last_layers(results: PoolResults, depths: Mapping[str, int]) -> str:
    """Return the encoding with the best mean test accuracy at the last layer of each block."""
    words = []
    for block, depth in depths.items():
        own = [group for group in results.trained if (group.block, group.depth) == (block, depth)]
        best = max(own, key=lambda group: group.layers[-1].mean)
        name, value = display_name(best.encoding), percent(best.layers[-1].mean)
        words.append(f"{display_name(block)} {name} {value}")
    return f"Best mean at the last layer: {'; '.join(words)}."


def count_changed_images(example: Example) -> str:
    """Return the number of images of a receptive field: each has one changed position, at offset 0."""
    samples = example.biases.receptive_field[-1].samples
    if samples is None:
        return "test images"
    return f"{samples[samples.shape[0] // 2, samples.shape[1] // 2]} test images"


def sample_text(trials: Sequence[Trial]) -> str:
    """Return the numbers of images, networks and seeds, and what the bars are."""
    images = _range(probes.network.num_images for trial in trials for probes in trial.probes.values())
    counts = Counter(trial.architecture for trial in trials)
    text = f"{images} test images; {len(trials)} networks of {len(counts)} architectures"
    if max(counts.values()) == 1:
        return f"{text}, one seed each, without error bars"
    return f"{text}; mean and standard deviation (bars) over {_range(counts.values())} seeds"


def _range(counts: Iterable[int]) -> str:
    found = sorted(set(counts))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def findings(results: PoolResults) -> str:
    """Return how many architectures exceed the baselines, and the rank correlation with the loss."""
    groups, pixels = results.trained, max(each for name, each in results.baselines.items() if name != CHANCE)
    learned = sum(group.accuracy.mean > group.untrained.mean for group in groups)
    exceeding = sum(group.accuracy.mean > pixels for group in groups)
    losses, accuracies = (
        np.array([getattr(each, name).mean for each in groups]) for name in ("loss", "accuracy")
    )
    found = spearman(losses, accuracies)
    rho = "" if found is None else f"; rank correlation with the loss {style.decimal(found.rho, 2)}"
    text = (
        f"the mean exceeds that before training in {learned} of {len(groups)} architectures, and raw pixels"
    )
    return f"{display_name(results.pool).capitalize()}: {text} in {exceeding}{rho}."


def best_layers(results: PoolResults) -> str:
    """Return which layer of the deepest convolutions has the best mean test accuracy."""
    own = [group for group in results.trained if group.block == "conv"]
    deepest = [group for group in own if group.depth == max(each.depth for each in own)]
    best = (f"{display_name(group.encoding)} {group.layers.index(max(group.layers))}" for group in deepest)
    return f"Layer with the best mean at {depth_text(deepest[0].depth)}: {', '.join(best)}."
