from dataclasses import replace

import pytest
import torch

from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.probing import feature_extraction
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_splits import FeatureSplit, FeatureSplits
from isopix.probing.features import iter_features, raw_pixels
from isopix.probing.probe import fit_probe
from isopix.probing.results import ProbeReport
from isopix.recipes import registry
from isopix.runs.load import LoadedRun
from isopix.runs.probe import probe_run

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
    return LoadedRun(RECIPE, network.eval(), 7, [], {})


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
