"""Splits keep layers, labels and scales together; standardization is the same in chunks and in 16 bits."""

from dataclasses import replace

import pytest
import torch

from isopix.probing.splits import AffineScale, FeatureSplit, FeatureSplits, Standardizer
from isopix.studies.inductive_bias.pixel_probes import feature_splits
from tests.unit.probing.cases import clusters, cut, easy, standardize


def three() -> FeatureSplits:
    """Three layers that are shifted by their numbers."""
    splits = easy()
    layers = torch.arange(3.0)[:, None, None]
    return splits.map(lambda split: replace(split, features=split.features + layers))


def test_validation_is_appended_to_train_and_nothing_else_changes():
    scale = AffineScale(torch.rand(1, 1, 6), torch.rand(1, 1, 6))
    splits = replace(easy(), stored_scale=scale, first_layer=2)
    combined = splits.with_validation_in_train()
    assert combined.train.features.equal(torch.cat([splits.train.features, splits.validation.features], 1))
    assert combined.train.labels.equal(torch.cat([splits.train.labels, splits.validation.labels]))
    assert replace(combined, train=splits.train) == splits


def test_layers_keep_their_numbers_and_their_scale():
    scale = AffineScale(torch.arange(3.0)[:, None, None].expand(3, 1, 6), torch.ones(3, 1, 6))
    some = replace(three(), stored_scale=scale).select_layers(1, 3)
    assert some.first_layer == 1
    assert some.stored_scale is not None
    assert some.stored_scale.center[:, 0, 0].tolist() == [1.0, 2.0]
    assert torch.equal(some.test.features, three().test.features[1:])


def test_layers_are_concatenated_in_order_with_their_scales():
    scale = AffineScale(torch.arange(18.0).reshape(3, 1, 6), torch.ones(3, 1, 6))
    splits = replace(three(), extra_views=(three().test,), stored_scale=scale).concat_layers()
    assert splits.train.features.shape == (1, 120, 18)
    assert torch.equal(splits.train.features[0, :, 6:12], three().train.features[1])
    assert torch.equal(splits.extra_views[0].features, splits.test.features)
    assert splits.stored_scale is not None
    assert splits.stored_scale.center.flatten().tolist() == list(range(18))


@pytest.mark.parametrize("chunk", [1, 40, 10**6])
def test_standardization_in_chunks_is_that_of_the_whole(monkeypatch, chunk):
    features, labels = clusters(300, 6, 3)
    features = features * 3 + 1e3
    monkeypatch.setattr(feature_splits, "CHUNK", chunk)
    standardizer = Standardizer.fit(FeatureSplit(features, labels))
    whole = features.double()
    torch.testing.assert_close(standardizer.center, whole.mean(1, keepdim=True), rtol=1e-12, atol=0)
    inverse_scale = 1 / whole.std(1, keepdim=True, correction=0)
    torch.testing.assert_close(standardizer.inverse_scale, inverse_scale, rtol=1e-9, atol=0)


def test_scaled_features_are_standardized_as_the_original_ones():
    features, labels = clusters(300, 6, 3)
    features = features.double() + 5
    features[..., 0] = 5 + 1e-7 * features[..., 0]  # rounding error
    scale = AffineScale(torch.full((1, 1, 6), 5.0), torch.full((1, 1, 6), 2.0))
    plain = standardize(cut(features, labels))
    kept = standardize(replace(cut((features - 5) / 2, labels), stored_scale=scale))
    assert plain.test.features[..., 0].abs().max() == 0
    torch.testing.assert_close(kept.test.features, plain.test.features)


def test_chunks_are_the_whole(monkeypatch):
    monkeypatch.setattr(feature_splits, "CHUNK", 50)
    split = three().test
    chunks = list(split.chunks())
    assert len(chunks) > 10
    assert torch.equal(torch.cat([chunk.features for chunk in chunks], 1), split.features)
    assert torch.equal(torch.cat([chunk.labels for chunk in chunks]), split.labels)
