"""Splits keep layers, labels and scales together; standardized in chunks, in 16 bits, cached: the same."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.probing import splits as module
from isopix.probing.splits import AffineScale, Features, FeatureSplit, FeatureSplits, Standardizer, cached
from tests.unit.probing.cases import clusters, cut, easy, standardize


def three() -> FeatureSplits:
    """Three layers that are shifted by their numbers."""
    layers = torch.arange(3.0)[:, None, None]
    return easy().map(lambda split: replace(split, features=split.features + layers))


def test_layers_keep_their_numbers_and_scales_also_concatenated() -> None:
    scale = AffineScale(torch.arange(18.0).reshape(3, 1, 6), torch.ones(3, 1, 6))
    splits = replace(three(), extra_views=(three().test,), stored_scale=scale)
    some, joined = splits.select_layers(1, 3), splits.concat_layers()
    assert some.first_layer == 1
    assert some.stored_scale.center[:, 0, 0].tolist() == [6.0, 12.0]
    assert torch.equal(some.test.features, splits.test.features[1:])
    assert joined.train.features.shape == (1, 120, 18)
    assert torch.equal(joined.train.features[0, :, 6:12], splits.train.features[1])
    assert torch.equal(joined.extra_views[0].features, joined.test.features)
    assert joined.stored_scale.center.flatten().tolist() == list(range(18))


@pytest.mark.parametrize("chunk", [1, 40, 10**6])
def test_standardization_in_chunks_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    features, labels = clusters(300, 6, 3)
    whole = (features * 3 + 1e3).double()
    monkeypatch.setattr(module, "CHUNK", chunk)
    found = Standardizer.fit(FeatureSplit(whole.float(), labels))
    whole = whole.float().double()
    torch.testing.assert_close(found.center, whole.mean(1, keepdim=True), rtol=1e-12, atol=0)
    inverse = 1 / whole.std(1, keepdim=True, correction=0)
    torch.testing.assert_close(found.inverse_scale, inverse, rtol=1e-9, atol=0)


def test_scaled_features_are_standardized_as_the_original_ones() -> None:
    features, labels = clusters(300, 6, 3)
    features = features.double() + 5
    features[..., 0] = 5 + 1e-7 * features[..., 0]  # rounding error
    scale = AffineScale(torch.full((1, 1, 6), 5.0), torch.full((1, 1, 6), 2.0))
    plain = standardize(cut(features, labels))
    kept = standardize(replace(cut((features - 5) / 2, labels), stored_scale=scale))
    assert plain.test.features[..., 0].abs().max() == 0
    torch.testing.assert_close(kept.test.features, plain.test.features)


class Reader:
    """Features in batches of 7 images, and how often they were computed."""

    def __init__(self, features: Features):
        self.features, self.count = features, 0

    def __call__(self) -> Iterator[Features]:
        self.count += 1
        return iter(self.features.split(7, 1))


def readers(features: Features) -> dict[str, Reader]:
    return {"train": Reader(features[:, :200]), "test": Reader(features[:, 200:])}


@pytest.fixture
def features() -> Features:
    return torch.cat([clusters(300, 6, 3)[0], 40 * clusters(300, 6, 3)[0] + 1000])


@pytest.mark.parametrize("damage", ["", "features-test.npy", "center.npy", "manifest.json"])
def test_cached_features_are_computed_once_and_again_if_damaged(
    tmp_path: Path, features: Features, damage: str
) -> None:
    reading, folder = readers(features), tmp_path / "a" / "key"
    before = {name: each.clone() for name, each in cached(reading, folder)[0].items()}
    if damage:
        content = bytearray((folder / damage).read_bytes())
        content[-3] ^= 1
        (folder / damage).write_bytes(content)
    again, scale = cached(reading, folder)
    assert [each.count for each in reading.values()] == [1 + bool(damage)] * 2
    for name, each in again.items():
        assert each.dtype == torch.float16
        assert torch.equal(each, before[name])
        whole = each.float() * scale.scale + scale.center
        torch.testing.assert_close(whole, reading[name].features, atol=0.1, rtol=1e-3)


def test_features_constant_in_the_first_images_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCALE_IMAGES", 10)
    features = torch.full((1, 300, 2), -1.0)
    features[0, 50:, 0] = torch.linspace(-1, 1, 250)
    halves, scale = cached(readers(features), tmp_path / "key")
    whole = halves["train"].float() * scale.scale + scale.center
    torch.testing.assert_close(whole, features[:, :200], atol=1e-3, rtol=0)
