"""Splits keep layers, labels and frames together; one scale serves blocks, halves and frames alike."""

from dataclasses import replace

import pytest
import torch

from isopix.probe import feature_splits as splitting
from isopix.probe.feature_splits import Frame, Split, Splits, Standard, standardised
from tests.unit.probe.cases import clusters, cut, easy


def three() -> Splits:
    """Three layers of which each says its number."""
    splits = easy()
    layers = torch.arange(3.0)[:, None, None]
    return splits.map(lambda split: replace(split, features=split.features + layers))


def test_folding_back_moves_validation_behind_train_and_keeps_all_else():
    frame = Frame(torch.rand(1, 1, 6), torch.rand(1, 1, 6))
    splits = replace(easy(), frame=frame, first=2)
    folded = splits.folded()
    assert folded.train.features.equal(torch.cat([splits.train.features, splits.validation.features], 1))
    assert folded.train.labels.equal(torch.cat([splits.train.labels, splits.validation.labels]))
    assert replace(folded, train=splits.train) == splits


def test_layers_keep_their_numbers_and_their_frame():
    frame = Frame(torch.arange(3.0)[:, None, None].expand(3, 1, 6), torch.ones(3, 1, 6))
    some = replace(three(), frame=frame).layers(1, 3)
    assert some.first == 1
    assert some.frame is not None
    assert some.frame.centre[:, 0, 0].tolist() == [1.0, 2.0]
    assert torch.equal(some.test.features, three().test.features[1:])


def test_joined_layers_stand_one_after_another_with_their_frames():
    frame = Frame(torch.arange(18.0).reshape(3, 1, 6), torch.ones(3, 1, 6))
    splits = replace(three(), again=(three().test,), frame=frame).joined()
    assert splits.train.features.shape == (1, 120, 18)
    assert torch.equal(splits.train.features[0, :, 6:12], three().train.features[1])
    assert torch.equal(splits.again[0].features, splits.test.features)
    assert splits.frame is not None
    assert splits.frame.centre.flatten().tolist() == list(range(18))


@pytest.mark.parametrize("block", [1, 40, 10**6])
def test_a_scale_of_blocks_is_that_of_the_whole(monkeypatch, block):
    features, labels = clusters(300, 6, 3)
    features = features * 3 + 1e3
    monkeypatch.setattr(splitting, "BLOCK", block)
    standard = Standard.of(Split(features, labels))
    whole = features.double()
    torch.testing.assert_close(standard.centre, whole.mean(1, keepdim=True), rtol=1e-12, atol=0)
    scale = 1 / whole.std(1, keepdim=True, correction=0)
    torch.testing.assert_close(standard.scale, scale, rtol=1e-9, atol=0)


def test_features_in_a_frame_are_scaled_as_those_that_they_were():
    features, labels = clusters(300, 6, 3)
    features = features.double() + 5
    features[..., 0] = 5 + 1e-7 * features[..., 0]  # rounding's own
    frame = Frame(torch.full((1, 1, 6), 5.0), torch.full((1, 1, 6), 2.0))
    plain = standardised(cut(features, labels))
    kept = standardised(replace(cut((features - 5) / 2, labels), frame=frame))
    assert plain.test.features[..., 0].abs().max() == 0
    torch.testing.assert_close(kept.test.features, plain.test.features)


def test_blocks_are_the_whole(monkeypatch):
    monkeypatch.setattr(splitting, "BLOCK", 50)
    split = three().test
    blocks = list(split.blocks())
    assert len(blocks) > 10
    assert torch.equal(torch.cat([block.features for block in blocks], 1), split.features)
    assert torch.equal(torch.cat([block.labels for block in blocks]), split.labels)
