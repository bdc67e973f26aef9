"""Features are the pooled tokens of every layer, under masks of training; splits and caches keep them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.core.types import Images
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.load import load_dataset
from isopix.model.network import Network
from isopix.probing import features as module
from isopix.probing import splits
from isopix.probing.config import ProbeConfig
from isopix.probing.features import NetworkFeatures, extract_features, read_splits
from isopix.probing.splits import Features, FeatureSplits, Standardizer
from isopix.recipes import registry
from isopix.runs.load import LoadedRun
from isopix.runs.state import State
from tests.unit.probing.cases import clusters, cut, digits, easy, network, standardize


def three() -> FeatureSplits:
    """Three layers that are shifted by their numbers."""
    layers = torch.arange(3.0)[:, None, None]
    return easy().map(lambda split: replace(split, features=split.features + layers))


def test_layers_keep_their_numbers_and_order_also_concatenated() -> None:
    splits = replace(three(), extra_views=(three().test,))
    some, joined = splits.select_layers(1, 3), splits.concat_layers()
    assert some.first_layer == 1
    assert torch.equal(some.test.features, splits.test.features[1:])
    assert joined.train.features.shape == (1, 120, 18)
    assert torch.equal(joined.train.features[0, :, 6:12], splits.train.features[1])
    assert torch.equal(joined.extra_views[0].features, joined.test.features)


@pytest.mark.parametrize("chunk", [1, 40, 10**6])
def test_standardization_in_chunks_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    features, _ = clusters(300, 6, 3)
    whole = (features * 3 + 1e3).double()
    monkeypatch.setattr(splits, "CHUNK", chunk)
    found = Standardizer.fit(whole.float())
    whole = whole.float().double()
    torch.testing.assert_close(found.center, whole.mean(1, keepdim=True), rtol=1e-12, atol=0)
    inverse = 1 / whole.std(1, keepdim=True, correction=0)
    torch.testing.assert_close(found.inverse_scale, inverse, rtol=1e-9, atol=0)


def test_features_that_vary_by_rounding_errors_are_zero() -> None:
    features, labels = clusters(300, 6, 3)
    features = features.double() + 5
    features[..., 0] = 5 + 1e-7 * features[..., 0]
    assert standardize(cut(features, labels)).test.features[..., 0].abs().max() == 0


CONFIG = ProbeConfig()
AR, BERT = (
    registry.resolve(name, settings=["depth=2", "width=16"]).recipe
    for name in ("igpt.digits", "igpt.digits_bert")
)


def test_the_batch_size_does_not_matter() -> None:
    net, images = network(), digits()[0][:10]
    torch.testing.assert_close(extract_features(net, images, batch_size=4), extract_features(net, images))


@pytest.fixture(scope="module")
def data() -> ImageDataset:
    return load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=60))


def loaded(recipe=BERT, scale: float = 0.3) -> LoadedRun:
    grays = torch.linspace(0, 255, 17)[:, None].expand(17, 3).contiguous()
    built = recipe.build(recipe.model.codec.build(recipe.grid, grays))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=scale)
    return LoadedRun(recipe, built.eval(), State(step=7))


def source(config: ProbeConfig, recipe=BERT, scale: float = 0.3) -> NetworkFeatures:
    return NetworkFeatures(loaded(recipe, scale).model, "fp32", {"recipe": recipe.name}, config=config)


def read(data: ImageDataset, recipe=BERT, **settings) -> FeatureSplits:
    return read_splits("trained", source(replace(CONFIG, **settings), recipe), data)


def test_features_have_the_same_key_where_only_what_is_fitted_to_them_differs() -> None:
    same = replace(CONFIG, seed=3, refit_on_validation=True, concat=5, method="ridge")
    assert source(CONFIG).identity() == source(same).identity()


def test_streamed_features_are_those_in_memory_and_are_found_again(
    data: ImageDataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    masked = source(replace(CONFIG, mask_ensemble=2))
    stored, plain = read_splits("trained", masked, data, stream=True), read(data, mask_ensemble=2)
    pairs = zip((stored.train, *stored.test_views), (plain.train, *plain.test_views), strict=True)
    for one, other in pairs:
        assert torch.equal(one.features, other.features)
        assert torch.equal(one.labels, other.labels)
    monkeypatch.setattr(module, "iter_features", None)  # nothing is computed
    again = read_splits("trained", masked, data, stream=True)
    assert torch.equal(again.test.features, stored.test.features)
    with pytest.raises(ValueError, match="the test split has no images"):
        read_splits("trained", masked, replace(data, test=data.test.sample(0)), stream=True)


def test_kept_features_are_computed_again_for_other_weights_and_if_damaged(
    data: ImageDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    counts, extract = list[int](), module.iter_features

    def counted(network: Network, images: Images, **options: object) -> Iterator[Features]:
        counts.append(len(images))
        return extract(network, images, **options)

    def computed(scale: float = 0.3) -> int:
        read_splits("untrained", source(CONFIG, scale=scale), data, keep=True)
        found = sum(counts)
        counts.clear()
        return found

    monkeypatch.setattr(module, "iter_features", counted)
    assert [computed(), computed()] == [180, 0]
    [folder] = (tmp_path / "features").iterdir()
    (folder / "test-0.npy").write_bytes(b"")
    assert [computed(), computed(scale=0.2)] == [180, 180]
    monkeypatch.setattr(splits, "MAX_KEPT", 0)
    assert computed(scale=0.1) == 180
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_the_baselines_of_a_network_are_of_its_recipe_and_its_width(data: ImageDataset) -> None:
    run = loaded(AR)
    sources = run.feature_sources(data, CONFIG, "fp32")
    assert list(sources) == ["trained", "untrained", "raw pixels", "raw pixels, PCA"]
    drawn, fresh = sources["untrained"].model.network.tensors(), AR.build(run.network.codec).tensors()
    assert all(torch.equal(drawn[name], tensor) for name, tensor in fresh.items())
    for kind, count in (("mean", 16), ("grid2", 53)):  # digits vary in 53 directions
        found = run.feature_sources(data, replace(CONFIG, pool=kind), "fp32")["raw pixels, PCA"]
        assert found.components.shape[1] == count
    assert "raw pixels, PCA" not in run.feature_sources(data, replace(CONFIG, pool="grid4"), "fp32")
