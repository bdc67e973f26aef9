"""Probing a run, with raw pixels, the untrained network and shuffled labels as baselines."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from isopix.core import ranks
from isopix.core.config import to_dict
from isopix.core.device import Precision
from isopix.core.measurement import Measurement
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import images_hash
from isopix.model.pool import pooled_width, require_pool
from isopix.objectives.base import PretrainModel
from isopix.probing.baselines import PIXEL_COMPONENTS, RAW_PIXELS, probe_with_baselines
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_extraction import (
    FeatureSource,
    NetworkFeatures,
    Note,
    PixelComponents,
    PixelFeatures,
    read_cached_splits,
    read_splits,
    views_of,
)
from isopix.probing.feature_splits import FeatureSplits
from isopix.probing.parallel_features import with_shared_features
from isopix.probing.results import SELECTED_LABELS, ProbeReport
from isopix.recipes.recipe import NETWORK, Recipe
from isopix.runs.load import LoadedRun
from isopix.storage.atomic import write_json
from isopix.storage.provenance import settings_hash, with_provenance
from isopix.storage.run_folder import RunFolder


def probe_run(
    loaded: LoadedRun,
    data: ImageDataset,
    *,
    precision: Precision,
    config: ProbeConfig,
    note: Note = lambda text: None,
) -> ProbeReport:
    """Probe every layer of a run and of the baselines on the same images (iGPT section 2.4).

    Several processes share the computation of features; rank 0 does all else, and all return its report. A
    method that reads features a batch at a time keeps them in the feature cache, and `note` says so. Raises
    ValueError where `data` has no labels, one class, or no validation images, and for masks or a layer that
    the network does not have; RuntimeError if a selected fit did not converge.
    """
    data.require_labels("probe")
    data.require_validation("a layer")
    _check(loaded, config)
    networks = network_sources(loaded, config, precision)

    def probe(shared: Mapping[str, FeatureSource]) -> ProbeReport:
        sources = {**shared, **pixel_sources(loaded, data, config)}

        def read(name: str) -> FeatureSplits:
            if config.method.streams:
                return read_cached_splits(sources[name], data, lambda text: note(f"{name}: {text}"))
            return read_splits(sources[name], data, keep=name == "untrained")

        baselines = {name: partial(read, name) for name in sources if name != "trained"}
        device = loaded.network.device
        return probe_with_baselines(partial(read, "trained"), baselines, config=config, device=device)

    report = with_shared_features(networks, views_of(data, config.mask_ensemble), probe)
    measurement = probe_measurement(loaded, data, config, report.baseline_accuracies)
    warnings = (*report.network.warnings, *measurement.warnings)
    network = replace(report.network, warnings=warnings)
    return replace(report, network=network, measurement=measurement)


def probe_measurement(
    loaded: LoadedRun, data: ImageDataset, config: ProbeConfig, baselines: Mapping[str, float]
) -> Measurement:
    """Return the record of a probe's test accuracies, with those of its baselines."""
    return replace(
        loaded.measure(data, "test"),
        fitted_images=len(data.train),
        fitted_hash=images_hash(data.train, data.validation),
        selection=_selection(config, data),
        baselines=dict(baselines),
    )


def _selection(config: ProbeConfig, data: ImageDataset) -> str:
    """Return what is chosen, as `layer and L2 penalty chosen on 180 validation images`; or empty."""
    name, grid = config.method.grid(config.l2_grid)
    chosen = ["layer"] if config.layer is None else []
    chosen += [SELECTED_LABELS[name]] if len(grid) > 1 else []
    return f"{' and '.join(chosen)} chosen on {len(data.validation):,} validation images" if chosen else ""


def feature_sources(
    loaded: LoadedRun, data: ImageDataset, config: ProbeConfig, precision: Precision
) -> dict[str, FeatureSource]:
    """Return the features of a trained network, of the same one untrained, of raw pixels, and of as many
    principal components of raw pixels as the network has features, where these are fewer than the pixels.

    Components are fitted to the training images of `data`, without labels. Raises ValueError for a pool of
    more cells than the grid.
    """
    return {**network_sources(loaded, config, precision), **pixel_sources(loaded, data, config)}


def network_sources(
    loaded: LoadedRun, config: ProbeConfig, precision: Precision
) -> dict[str, NetworkFeatures]:
    """Return the sources of `feature_sources` that are networks. Raises what it raises."""
    require_pool(config.pool, loaded.network.backbone.grid)
    network, recipe = loaded.network, loaded.recipe
    networks = {"trained": network, "untrained": recipe.build(network.codec).to(network.device).eval()}
    settings = feature_settings(recipe)
    return {
        name: NetworkFeatures(PretrainModel(each, recipe.objective), config, precision, settings)
        for name, each in networks.items()
    }


def pixel_sources(loaded: LoadedRun, data: ImageDataset, config: ProbeConfig) -> dict[str, FeatureSource]:
    """Return the sources of `feature_sources` that are raw pixels."""
    count = pooled_width(config.pool, loaded.network.backbone.grid, loaded.recipe.model.width)
    components = PixelComponents.fit(data.train.images, count)
    pixels: dict[str, FeatureSource] = {RAW_PIXELS: PixelFeatures()}
    return pixels if components is None else {**pixels, PIXEL_COMPONENTS: components}


def feature_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings of a recipe that features depend on, apart from the weights."""
    return {name: value for name, value in to_dict(recipe).items() if name in NETWORK and name != "head"}


def save_report(run: RunFolder, step: int, report: ProbeReport, facts: dict[str, object]) -> Path:
    """Write a probe report into the run folder and return its path; `facts` describe the images. Of several
    processes, rank 0 writes it.
    """
    values = {"kind": "probe", "step": step, **facts, **report.to_dict()}
    measured = report.measurement
    images = measured and (measured.images_hash, measured.fitted_hash)
    settings = {"config": report.config, "images": images, **facts}
    path = run.probes / f"probe-{step:08d}-{facts['data']}-{settings_hash(settings)}.json"
    if ranks.rank() == 0:
        run.probes.mkdir(exist_ok=True)
        write_json(path, with_provenance(values))
    return path


def _check(loaded: LoadedRun, config: ProbeConfig) -> None:
    if config.mask_ensemble and not loaded.recipe.objective.masks_input:
        raise ValueError(
            f"mask_ensemble is {config.mask_ensemble}, but an autoregressive model masks nothing; allowed: 0"
        )
    depth = loaded.network.backbone.depth
    if config.layer is not None and config.layer > depth:
        raise ValueError(f"layer {config.layer} does not exist; layers are 0 to {depth}")
