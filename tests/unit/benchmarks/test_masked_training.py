"""Masked training steps against plain PyTorch: other weights, masks and losses are noticed."""

import pytest
import torch

from isopix.benchmarks import masked_training, networks, plain_pytorch
from isopix.benchmarks.benchmark import OWN
from isopix.benchmarks.numerics import NumericsError
from isopix.model.network import Network
from isopix.recipes.recipe import Recipe
from tests.unit.benchmarks.tiny import CPU, measured, set_native

BLOCKS = ["conv", "mixer", "transformer-1", "transformer-4"]


@pytest.mark.parametrize("native", ["bf16", "fp32"])
@pytest.mark.parametrize("block", BLOCKS)
def test_both_sides_are_measured(block: str, native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_native(monkeypatch, native)
    own, peer, _ = measured(f"masked.{block}").times
    assert (own, peer) == (OWN, f"plain PyTorch, {native}")


@pytest.mark.parametrize("block", BLOCKS)
def test_one_other_weight_of_the_peer_is_an_error(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = plain_pytorch.plain_network

    def wrong(network: Network, recipe: Recipe) -> plain_pytorch.Plain:
        plain = right(network, recipe)
        weight = max(plain.blocks.parameters(), key=torch.numel)
        with torch.no_grad():
            weight.copy_(weight.roll(1, 0))
        return plain

    monkeypatch.setattr(plain_pytorch, "plain_network", wrong)
    with pytest.raises(NumericsError, match="logits differ"):
        measured(f"masked.{block}")


def test_other_masks_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked_training, "MASKED", 0.2)
    with pytest.raises(NumericsError, match="different masks"):
        measured("masked.conv")


def test_another_loss_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = plain_pytorch.Plain.forward
    monkeypatch.setattr(plain_pytorch.Plain, "forward", lambda *given: 1.05 * forward(*given))
    with pytest.raises(NumericsError, match="conv-pix2vec-1: loss"):
        measured("masked.conv")


def test_steps_of_the_plain_network_do_not_change_it() -> None:
    recipe = networks.find_recipe("isotropic.tiny-conv-pix2vec-1")
    plain = plain_pytorch.plain_network(networks.random_network(recipe, CPU), recipe)
    before = [weight.clone() for weight in plain.parameters()]
    images = networks.random_images(recipe, 2, CPU)
    step = masked_training.plain_steps(plain, images, precision="bf16", compiled=False)["eager"]
    assert float(step()) == float(step())
    assert all(torch.equal(*pair) for pair in zip(before, plain.parameters(), strict=True))
