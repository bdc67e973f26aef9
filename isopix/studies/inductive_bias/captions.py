"""Parts of the captions of the study's figures: sample sizes, what bars and lines are, and findings."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from isopix.core.correlation import spearman
from isopix.plots.study import PoolResults
from isopix.plots.study_marks import depth_text, display_name
from isopix.studies.inductive_bias.examples import Example
from isopix.studies.inductive_bias.trials import Trial

CHANCE = "chance"
BASELINES_NOTE = (
    "Gray lines: probes of raw pixels, of as many principal components of the pixels as the network has "
    "features (PCA) where these are fewer, and chance, the largest class."
)
PROBE_NOTE = "Linear probe of the layer that validation images choose, on"


def network_size(networks: Sequence[Example]) -> str:
    """Return the size of networks, as `3 blocks with pix2vec, seed 0`."""
    return f"{depth_text(networks[0].depth)} with pix2vec, seed 0"


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
    rho = "" if found is None else f"; rank correlation with the loss {found.rho:.2f}"
    text = (
        f"the mean exceeds that before training in {learned} of {len(groups)} architectures, and raw pixels"
    )
    return f"{display_name(results.pool).capitalize()}: {text} in {exceeding}{rho}.".replace("-", "−")


def best_layers(results: PoolResults) -> str:
    """Return which layer of the deepest convolutions has the best mean test accuracy."""
    own = [group for group in results.trained if group.block == "conv"]
    deepest = [group for group in own if group.depth == max(each.depth for each in own)]
    best = (f"{display_name(group.encoding)} {group.layers.index(max(group.layers))}" for group in deepest)
    return f"Layer with the best mean at {depth_text(deepest[0].depth)}: {', '.join(best)}."
