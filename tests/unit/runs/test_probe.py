from dataclasses import replace

import pytest
import torch

from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.probing import feature_extraction
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_extraction import PixelComponents
from isopix.probing.feature_splits import FeatureSplit, FeatureSplits
from isopix.probing.features import iter_features, raw_pixels
from isopix.probing.probe import fit_probe
from isopix.probing.results import ProbeReport
from isopix.recipes import registry
from isopix.runs.load import LoadedRun
from isopix.runs.probe import feature_sources, probe_run
from isopix.runs.state import State

CPU = torch.device("cpu")
QUICK = ProbeConfig(l2_grid=(0.1,), l2_extra=(), num_resamples=5)
RECIPE = registry.resolve("igpt.digits", assignments=["depth=1", "width=16", "seed=5"]).recipe


@pytest.fixture(scope="module")
def data() -> ImageDataset:
    return load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=60))


def loaded(*, trained: bool) -> LoadedRun:
    """A network as built, or with weights that no seed would give."""
    grays = torch.linspace(0, 255, 17)[:, None].expand(17, 3).contiguous()
    network = RECIPE.build(RECIPE.model.codec.build(RECIPE.grid, grays))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters() if trained else ():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=0.3)
    return LoadedRun(RECIPE, network.eval(), State(step=7))


def report(network: LoadedRun, data: ImageDataset, config: ProbeConfig = QUICK) -> ProbeReport:
    return probe_run(network, data, precision="fp32", config=config)


def test_the_untrained_baseline_is_the_network_as_it_was_built(data: ImageDataset) -> None:
    found = report(loaded(trained=True), data)
    assert found.baselines["untrained"] == report(loaded(trained=False), data).network
    assert found.baselines["untrained"] != found.network


def test_the_raw_pixels_baseline_is_a_probe_of_the_pixels(data: ImageDataset) -> None:
    parts = [data.train, data.validation, data.test]
    pixels = FeatureSplits(*(FeatureSplit(raw_pixels(part.images), part.labels) for part in parts))
    expected = fit_probe(pixels, QUICK, device=CPU)
    assert report(loaded(trained=True), data).baselines["raw pixels"] == expected


def test_without_validation_images_nothing_is_selected_on_test(data: ImageDataset) -> None:
    bare = replace(data, validation=data.validation.sample(0))
    with pytest.raises(ValueError, match=r"^a layer is chosen by validation images, and dataset 'digits'"):
        report(loaded(trained=True), bare)


def test_features_pool_and_precision_reach_every_extraction(
    data: ImageDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spy(backbone, images, **options):
        asked.append((options["features"], options["pool"], options["precision"]))
        return iter_features(backbone, images, **options)

    monkeypatch.setattr(feature_extraction, "iter_features", spy)
    config = ProbeConfig(features="residual", pool="max", l2_grid=(0.1,), l2_extra=(), num_resamples=5)
    probe_run(loaded(trained=True), data, precision="bf16", config=config)
    assert asked == [("residual", "max", "bf16")] * 6  # three splits of the network, three of the untrained


def test_the_components_of_pixels_are_as_many_as_the_features(data: ImageDataset) -> None:
    network = loaded(trained=True)
    for pool, count in (("mean", 16), ("grid2", 53)):  # digits vary in 53 directions
        sources = feature_sources(network, data, replace(QUICK, pool=pool), "fp32")
        components = sources["raw pixels, PCA"]
        assert isinstance(components, PixelComponents)
        assert components.components.shape[1] == count
    for pool in ("grid4", "flatten"):  # 256 and 1,024 features of 192 pixel values
        assert "raw pixels, PCA" not in feature_sources(network, data, replace(QUICK, pool=pool), "fp32")
    found = report(network, data)
    assert found.baselines["raw pixels, PCA"].num_features == found.network.num_features == 16
    assert found.baselines["raw pixels"].num_features == 192


def test_a_pool_of_more_cells_than_the_grid_is_refused(data: ImageDataset) -> None:
    small = RECIPE.updated(data=replace(RECIPE.data, rows=3, cols=3))
    grays = torch.linspace(0, 255, 17)[:, None].expand(17, 3).contiguous()
    network = small.build(small.model.codec.build(small.grid, grays))
    with pytest.raises(ValueError, match=r"^pool grid4 needs 4 x 4 positions or more, and there are 3 x 3$"):
        report(LoadedRun(small, network, State(step=7)), data, replace(QUICK, pool="grid4"))
