"""Stored features are read once, hold however far from zero they lie, and are read again if damaged."""

import pytest
import torch

from isopix.probe import feature_cache as storing
from isopix.probe.feature_cache import stored
from isopix.probe.feature_splits import Split, Splits, standardised
from tests.unit.probe.cases import clusters


class Reader:
    """Features in parts of 7 images, and how often they were asked for."""

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


def test_a_second_time_nothing_is_read(tmp_path, features):
    reading = readers(features)
    first, second = (stored(reading, tmp_path / "a" / "key") for _ in range(2))
    assert (first.found, second.found) == (False, True)
    assert [each.count for each in reading.values()] == [1, 1]
    for name in reading:
        assert first.features[name].dtype == torch.float16
        assert torch.equal(first.features[name], second.features[name])
        assert first.features[name].shape == reading[name].features.shape


def test_16_bits_keep_what_is_far_from_zero(tmp_path, features):
    _, labels = clusters(300, 6, 3)
    far = features * 1e-3 + 100
    kept = stored(readers(far), tmp_path / "key")
    train, test = (
        Split(kept.features[name], part)
        for name, part in zip(("train", "test"), (labels[:200], labels[200:]), strict=True)
    )
    plain = Splits(*(Split(part, train.labels) for part in (far[:, :200],) * 3))
    ours = standardised(Splits(train, train, test, frame=kept.frame)).train.features
    torch.testing.assert_close(ours, standardised(plain).train.features, atol=5e-3, rtol=1e-3)


def test_what_the_first_images_show_constant_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(storing, "FRAMED", 10)
    features = torch.full((1, 300, 2), -1.0)
    features[0, 50:, 0] = torch.linspace(-1, 1, 250)
    kept = stored(readers(features), tmp_path / "key")
    whole = kept.features["train"].float() * kept.frame.spread + kept.frame.centre
    torch.testing.assert_close(whole, features[:, :200], atol=1e-3, rtol=0)


@pytest.mark.parametrize("damage", ["features-test.npy", "centre.npy", "manifest.json"])
def test_a_damaged_folder_is_read_anew(tmp_path, features, damage):
    reading = readers(features)
    before = {name: each.clone() for name, each in stored(reading, tmp_path / "key").features.items()}
    path = tmp_path / "key" / damage
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    again = stored(reading, tmp_path / "key")
    assert not again.found
    assert all(torch.equal(again.features[name], before[name]) for name in reading)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, features):
    (tmp_path / "features").write_text("a file")
    with pytest.raises(RuntimeError, match=r"^features cannot be kept in \S+ \(.*\); set ISOPIX_CACHE to an"):
        stored(readers(features), tmp_path / "features" / "key")
