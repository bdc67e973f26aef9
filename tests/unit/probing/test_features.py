"""Features are the pooled tokens of every layer, under masks of training; the cache finds them again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.core.types import Images
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.model import pool
from isopix.model.network import Network
from isopix.probing import features as module
from isopix.probing import splits
from isopix.probing.baselines import PixelFeatures
from isopix.probing.config import ProbeConfig
from isopix.probing.features import NetworkFeatures, extract_features, read_splits
from isopix.probing.splits import Features, FeatureSplits
from isopix.recipes import registry
from isopix.runs.load import LoadedRun
from isopix.runs.state import State
from tests.unit.probing.cases import digits, network

CONFIG = ProbeConfig()
AR, BERT = (
    registry.resolve(name, settings=["depth=2", "width=16"]).recipe
    for name in ("igpt.digits", "igpt.digits_bert")
)


@pytest.mark.parametrize("features", ["normed", "residual"])
@pytest.mark.parametrize("name", ["mean", "last", "max"])
def test_every_layer_is_the_pool_of_its_tokens(features: str, name: str) -> None:
    net, images = network(), digits()[0][:5]
    with torch.no_grad():
        tokens = list(net.features(images, kind=features))
    expected = torch.stack([pool.pool_tokens(layer, name, net.backbone.grid) for layer in tokens])
    assert torch.equal(extract_features(net, images, features=features, pool=name), expected)


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
    return NetworkFeatures(loaded(recipe, scale).model, config, "fp32", {"recipe": recipe.name})


def read(data: ImageDataset, recipe=BERT, **settings) -> FeatureSplits:
    return read_splits("trained", source(replace(CONFIG, **settings), recipe), data)


def test_only_a_mask_ensemble_masks_and_every_image_has_its_own_mask(data: ImageDataset) -> None:
    plain, masked, one = read(data), read(data, mask_ensemble=3), read(data, mask_ensemble=1)
    assert (len(plain.extra_views), len(masked.extra_views)) == (0, 2)
    changed = (plain.train.features != masked.train.features).any(2)[-1]
    assert changed.double().mean() > 0.9
    first, second, third = (view.features for view in masked.test_views)
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)
    assert torch.equal(one.test.features, first)
    assert torch.equal(one.train.features, masked.train.features)
    assert not torch.equal(read(data, mask_ensemble=1, seed=1).train.features, one.train.features)


def test_one_layer_is_that_of_all(data: ImageDataset) -> None:
    whole = read(data)
    for layer in range(3):
        alone = read(data, layer=layer)
        assert alone.first_layer == layer
        assert torch.equal(alone.test.features[0], whole.test.features[layer])


def test_the_key_of_the_cache_is_what_features_depend_on() -> None:
    config = replace(CONFIG, pool="mean")
    changes = [
        {},
        {"features": "residual"},
        {"pool": "max"},
        {"layer": 1},
        {"mask_ensemble": 1},
        {"mask_ensemble": 2},
        {"mask_ensemble": 1, "seed": 1},
    ]
    sources = [PixelFeatures(), *(source(replace(config, **each)) for each in changes)]
    sources += [source(config, scale=0.2), source(config, AR), source(replace(config, start_token=False), AR)]
    sources.append(replace(source(config), precision="bf16"))
    assert len({each.identity() for each in sources}) == len(sources)
    same = replace(config, seed=3, refit_on_validation=True, concat=5, method="ridge")
    assert source(config).identity() == source(same).identity()


def test_streamed_features_are_those_in_memory_and_are_found_again(
    data: ImageDataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    masked = source(replace(CONFIG, mask_ensemble=2))
    stored, plain = read_splits("trained", masked, data, stream=True), read(data, mask_ensemble=2)
    assert stored.stored_scale is not None
    pairs = zip((stored.train, *stored.test_views), (plain.train, *plain.test_views), strict=True)
    for one, other in pairs:
        whole = one.features.float() * stored.stored_scale.scale + stored.stored_scale.center
        torch.testing.assert_close(whole, other.features, atol=2e-3, rtol=1e-3)
        assert torch.equal(one.labels, other.labels)
    monkeypatch.setattr(module, "iter_features", None)  # nothing is computed
    again = read_splits("trained", masked, data, stream=True)
    assert torch.equal(again.test.features, stored.test.features)
    few = replace(data, test=data.test.sample(10))
    for each in (data, few):
        read_splits("raw pixels", PixelFeatures(), each, stream=True)
    assert len(list((tmp_path / "features").iterdir())) == 3


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
