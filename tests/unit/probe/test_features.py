"""Features are the pooled tokens of every layer, whatever the batch size."""

import pytest
import torch

from isopix.model import pool
from isopix.model.masking import sum_components
from isopix.probe.features import extract_features, raw_pixels, without_start_token
from tests.unit.data.refusal import refusal
from tests.unit.interop import models
from tests.unit.probe.cases import DEPTH, WIDTH, backbone, digits


@pytest.mark.parametrize(("features", "stream"), [("normed", "n"), ("residual", "h")])
@pytest.mark.parametrize("name", ["mean", "last", "max"])
def test_every_layer_is_the_pool_of_its_tokens(features, stream, name):
    network, images = backbone(), digits()[0][:5]
    with torch.no_grad():
        tokens = list(network.features(images, stream=stream))
    expected = torch.stack([pool.POOLS[name](layer, 0) for layer in tokens])
    assert torch.equal(extract_features(network, images, features=features, pool=name), expected)


def test_features_are_plain_float32_on_the_cpu():
    features = extract_features(backbone(), digits()[0][:5], precision="bf16")
    assert features.shape == (DEPTH + 1, 5, WIDTH)
    assert (features.dtype, features.device.type) == (torch.float32, "cpu")
    assert not features.is_inference()


def test_the_batch_size_does_not_matter():
    network, images = backbone(), digits()[0][:10]
    torch.testing.assert_close(
        extract_features(network, images, batch_size=3), extract_features(network, images, batch_size=10)
    )


def test_progress_counts_images():
    seen = []
    extract_features(backbone(), digits()[0][:10], batch_size=4, progress=seen.append)
    assert seen == [4, 8, 10]


def test_no_images_are_refused():
    with pytest.raises(ValueError, match=r"^cannot extract features: there are no images$"):
        extract_features(backbone(), digits()[0][:0])


def test_raw_pixels_span_minus_one_to_one():
    images = torch.tensor([0, 255], dtype=torch.uint8).reshape(1, 1, 1, 2).expand(1, 3, 4, 2)
    assert raw_pixels(images).tolist() == [[[-1.0, 1.0] * 12]]


def test_a_network_without_start_token_shares_all_other_weights_and_is_not_shifted():
    net = models.network()
    images = net.codec.decode(models.codes(net)[..., None])
    plain = without_start_token(net.backbone)
    assert {id(p) for p in plain.parameters()} == {id(p) for p in net.parameters()} - {
        id(net.backbone.masking.start),
        id(net.head.project.weight),
    }
    assert torch.equal(plain.enter(images), net.backbone.positions(sum_components(net.backbone.stem(images))))


def test_a_masked_network_has_no_start_token_to_leave_out():
    backbone = models.network(name="igpt.digits_bert").backbone
    assert "no start token" in refusal(without_start_token, backbone)
