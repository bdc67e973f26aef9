"""Probes of a trained network and of its baselines under several pools, with one forward pass of an image."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.model.network import Network
from isopix.model.pool import Pool, pooled_width
from isopix.probing.base import ProbeMethod
from isopix.probing.features import extract_features
from isopix.probing.probe import evaluate_probe
from isopix.probing.splits import Features, FeatureSplits
from isopix.runs.load import LoadedRun
from isopix.studies.inductive_bias.pixel_probes import CONFIG, feature_splits, probe_pixels, probed_layers
from isopix.studies.inductive_bias.trials import PoolProbes


def probe_pools(
    loaded: LoadedRun, data: ImageDataset, method: ProbeMethod, pools: Sequence[Pool], pixels_file: Path
) -> dict[Pool, PoolProbes]:
    """Probe every layer of a run's network under each pool, the untrained network likewise, all pixels, and
    as many principal components of the pixels as the network has features, where these are fewer. The last
    two are kept in `pixels_file` for the next network.
    """
    recipe, device = loaded.recipe, loaded.network.device
    untrained = recipe.build(loaded.network.codec).to(device).eval()
    features = {
        "trained": _read_pools(loaded, loaded.network, data, pools),
        "untrained": _read_pools(loaded, untrained, data, pools),
    }
    counts = {pool: pooled_width(pool, recipe.grid, recipe.model.width) for pool in pools}
    pixels = probe_pixels(data, method, tuple(counts.values()), device=device, file=pixels_file)
    found = dict[Pool, PoolProbes]()
    for pool in pools:
        own = {
            name: evaluate_probe(read.pop(pool), method, CONFIG, device=device)
            for name, read in features.items()
        }
        found[pool] = PoolProbes(
            network=probed_layers(own["trained"], keep_all=True),
            untrained=probed_layers(own["untrained"], keep_all=False),
            raw_pixels=pixels.pixels,
            pixel_components=pixels.components[str(counts[pool])],
            majority=own["trained"].result.majority_accuracy,
        )
    return found


def _read_pools(
    loaded: LoadedRun, network: Network, data: ImageDataset, pools: Sequence[Pool]
) -> dict[Pool, FeatureSplits]:
    """Return the features of every layer by pool."""
    width, precision = loaded.recipe.model.width, loaded.recipe.train.precision_on(network.device)

    def read(images: Images) -> Features:
        return extract_features(network, images, pool=pools, precision=precision)

    together = feature_splits(data, read)
    ends = accumulate(pooled_width(pool, loaded.recipe.grid, width) for pool in pools)
    columns = [slice(*pair) for pair in pairwise([0, *ends])]

    def select(columns: slice) -> FeatureSplits:
        return together.map(lambda split: split.map(lambda features: features[..., columns]))

    return {pool: select(each) for pool, each in zip(pools, columns, strict=True)}
