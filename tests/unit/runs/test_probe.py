from dataclasses import replace

import pytest
import torch

from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.probe.features import blocks, raw_pixels
from isopix.probe.probe import Split, Splits, probe
from isopix.probe.results import Evidence, Protocol
from isopix.recipes import registry
from isopix.runs import feature_extraction
from isopix.runs import probe as probe_run
from isopix.runs.load import Loaded

CPU = torch.device("cpu")
QUICK = Protocol(strengths=(0.1,), weaker=(), resamples=5)
RECIPE = registry.resolve("igpt.digits", assignments=["depth=1", "width=16", "seed=5"]).recipe


@pytest.fixture(scope="module")
def data() -> ImageDataset:
    return load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=60))


def loaded(*, trained: bool) -> Loaded:
    """A network as built, or with weights that no seed would give."""
    greys = torch.linspace(0, 255, 17)[:, None].expand(17, 3).contiguous()
    network = RECIPE.build(RECIPE.model.codec.build(RECIPE.grid, greys))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters() if trained else ():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=0.3)
    return Loaded(RECIPE, network.eval(), 7, [], {})


def evidence(network: Loaded, data: ImageDataset, protocol: Protocol = QUICK) -> Evidence:
    return probe_run.evidence(network, data, precision="fp32", protocol=protocol)


def test_the_untrained_control_is_the_network_as_it_was_built(data: ImageDataset) -> None:
    found = evidence(loaded(trained=True), data)
    assert found.controls["untrained"] == evidence(loaded(trained=False), data).network
    assert found.controls["untrained"] != found.network


def test_the_raw_pixels_control_is_a_probe_of_the_pixels(data: ImageDataset) -> None:
    parts = [data.train, data.validation, data.test]
    pixels = Splits(*(Split(raw_pixels(part.images), part.labels) for part in parts))
    expected = probe(pixels, QUICK, device=CPU)
    assert evidence(loaded(trained=True), data).controls["raw pixels"] == expected


def test_without_validation_images_nothing_is_chosen_by_those_of_the_test(data: ImageDataset) -> None:
    bare = replace(data, validation=data.validation.first(0))
    with pytest.raises(ValueError, match=r"^a layer is chosen by validation images, and dataset 'digits'"):
        evidence(loaded(trained=True), bare)


def test_stream_pool_and_precision_reach_every_reading(
    data: ImageDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spy(backbone, images, **options):
        asked.append((options["stream"], options["pool"], options["precision"]))
        return blocks(backbone, images, **options)

    monkeypatch.setattr(feature_extraction, "blocks", spy)
    protocol = Protocol(stream="h", pool="max", strengths=(0.1,), weaker=(), resamples=5)
    probe_run.evidence(loaded(trained=True), data, precision="bf16", protocol=protocol)
    assert asked == [("h", "max", "bf16")] * 6  # three splits of the network, three of the untrained
