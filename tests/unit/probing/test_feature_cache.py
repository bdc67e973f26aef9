"""Cached features are computed once, precise however far from zero, and computed again if damaged."""

import pytest
import torch

from isopix.probing import feature_cache
from isopix.probing.splits import FeatureSplit, FeatureSplits, cached
from tests.unit.probing.cases import clusters, standardize


class Reader:
    """Features in batches of 7 images, and how often they were computed."""

    def __init__(self, features):
        self.features, self.count = features, 0

    def __call__(self):
        self.count += 1
        return iter(self.features.split(7, 1))


def readers(features):
    return {"train": Reader(features[:, :200]), "test": Reader(features[:, 200:])}


@pytest.fixture
def features():
    return torch.cat([clusters(300, 6, 3)[0], 40 * clusters(300, 6, 3)[0] + 1000])


def test_a_second_time_nothing_is_computed(tmp_path, features):
    reading = readers(features)
    first, second = (cached(reading, tmp_path / "a" / "key") for _ in range(2))
    assert (first.found, second.found) == (False, True)
    assert [each.count for each in reading.values()] == [1, 1]
    for name in reading:
        assert first.features[name].dtype == torch.float16
        assert torch.equal(first.features[name], second.features[name])
        assert first.features[name].shape == reading[name].features.shape


def test_16_bits_keep_what_is_far_from_zero(tmp_path, features):
    _, labels = clusters(300, 6, 3)
    far = features * 1e-3 + 100
    kept = cached(readers(far), tmp_path / "key")
    train, test = (
        FeatureSplit(kept.features[name], part)
        for name, part in zip(("train", "test"), (labels[:200], labels[200:]), strict=True)
    )
    plain = FeatureSplits(*(FeatureSplit(part, train.labels) for part in (far[:, :200],) * 3))
    ours = standardize(FeatureSplits(train, train, test, stored_scale=kept.scale)).train.features
    torch.testing.assert_close(ours, standardize(plain).train.features, atol=5e-3, rtol=1e-3)


def test_features_constant_in_the_first_images_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_cache, "SCALE_IMAGES", 10)
    features = torch.full((1, 300, 2), -1.0)
    features[0, 50:, 0] = torch.linspace(-1, 1, 250)
    kept = cached(readers(features), tmp_path / "key")
    whole = kept.features["train"].float() * kept.scale.scale + kept.scale.center
    torch.testing.assert_close(whole, features[:, :200], atol=1e-3, rtol=0)


@pytest.mark.parametrize("damage", ["features-test.npy", "center.npy", "manifest.json"])
def test_a_damaged_folder_is_computed_again(tmp_path, features, damage):
    reading = readers(features)
    before = {name: each.clone() for name, each in cached(reading, tmp_path / "key").features.items()}
    path = tmp_path / "key" / damage
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    again = cached(reading, tmp_path / "key")
    assert not again.found
    assert all(torch.equal(again.features[name], before[name]) for name in reading)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, features):
    (tmp_path / "features").write_text("a file")
    with pytest.raises(
        RuntimeError, match=r"^features cannot be written to \S+ \(.*\); set ISOPIX_CACHE to an"
    ):
        cached(readers(features), tmp_path / "features" / "key")
