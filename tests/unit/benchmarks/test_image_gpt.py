"""Hugging Face's model has our weights and no dropout; another model is noticed."""

import pytest
import torch

from isopix.benchmarks import image_gpt
from isopix.benchmarks.numerics import NumericsError
from tests.unit.benchmarks.tiny import network, peer_of_other_weights

transformers = pytest.importorskip("transformers", reason="the peer is in isopix[bench]")


def test_it_has_no_dropout_and_equal_logits() -> None:
    ours = network()
    other = image_gpt.with_weights_of(ours)
    assert {module.p for module in other.modules() if isinstance(module, torch.nn.Dropout)} == {0.0}
    images = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    assert image_gpt.require_equal_logits(ours, other, images).startswith("logits equal")
    with pytest.raises(NumericsError, match="logits differ"):
        image_gpt.require_equal_logits(ours, peer_of_other_weights(ours), images)


def test_inputs_are_the_start_token_and_all_codes_but_the_last() -> None:
    ours = network()
    images = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    ids, codes = image_gpt.shift_right(ours, images), ours.codec.encode(images)[..., 0]
    assert ids[:, 0].tolist() == [17, 17]
    assert torch.equal(ids[:, 1:], codes[:, :-1])


def test_the_name_has_the_version() -> None:
    assert image_gpt.library_name() == f"transformers {transformers.__version__}"
