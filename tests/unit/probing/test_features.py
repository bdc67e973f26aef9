"""Features are the pooled tokens of every layer, whatever the batch size."""

import pytest
import torch

from isopix.model import attention, pool
from isopix.probing.features import extract_features, raw_pixels
from tests.unit.probing.cases import DEPTH, WIDTH, digits, network


@pytest.mark.parametrize("features", ["normed", "residual"])
@pytest.mark.parametrize("name", ["mean", "last", "max"])
def test_every_layer_is_the_pool_of_its_tokens(features, name):
    net, images = network(), digits()[0][:5]
    with torch.no_grad():
        tokens = list(net.features(images, kind=features))
    expected = torch.stack([pool.pool_tokens(layer, name, net.backbone.grid) for layer in tokens])
    assert torch.equal(extract_features(net, images, features=features, pool=name), expected)


def test_features_are_plain_float32_on_the_cpu():
    features = extract_features(network(), digits()[0][:5], precision="bf16")
    assert features.shape == (DEPTH + 1, 5, WIDTH)
    assert (features.dtype, features.device.type) == (torch.float32, "cpu")
    assert not features.is_inference()


@pytest.mark.parametrize(("precision", "used"), [("bf16", True), ("fp32", False)])
def test_features_in_bf16_may_round_scores(monkeypatch, precision, used):
    """Where that is faster; in fp32 never."""
    calls = []
    monkeypatch.setattr(attention, "lacks_matrix_units", lambda: True)
    monkeypatch.setattr(
        attention, "attend_in_blocks", lambda q, k, v, causal: calls.append(causal) or torch.zeros_like(q)
    )
    extract_features(network(), digits()[0][:5], precision=precision)
    assert bool(calls) == used


def test_the_batch_size_does_not_matter():
    net, images = network(), digits()[0][:10]
    torch.testing.assert_close(
        extract_features(net, images, batch_size=3), extract_features(net, images, batch_size=10)
    )


def test_no_images_are_refused():
    with pytest.raises(ValueError, match=r"^cannot extract features: there are no images$"):
        extract_features(network(), digits()[0][:0])


def test_raw_pixels_span_minus_one_to_one():
    images = torch.tensor([0, 255], dtype=torch.uint8).reshape(1, 1, 1, 2).expand(1, 3, 4, 2)
    assert raw_pixels(images).tolist() == [[[-1.0, 1.0] * 12]]
