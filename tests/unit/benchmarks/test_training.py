"""Training steps: both sides have the expected loss at every step, and wrong ones are noticed."""

import pytest
import torch

from isopix.benchmarks import image_gpt, networks, training
from isopix.benchmarks.benchmark import OWN
from isopix.benchmarks.numerics import NumericsError
from isopix.objectives.base import PretrainModel
from isopix.recipes.cost import recipe_cost
from tests.unit.benchmarks.tiny import CPU, WATCH, measured, peer_of_other_weights, set_native

pytest.importorskip("transformers", reason="the peer is in isopix[bench]")
NAME = "training.igpt-tiny"


@pytest.mark.parametrize(("native", "precisions"), [("bf16", ["fp32", "bf16"]), ("fp32", ["fp32"])])
def test_it_measures_all_precisions_of_the_peer_and_the_matrix_products(
    monkeypatch: pytest.MonkeyPatch, native: str, precisions: list[str]
) -> None:
    used = []
    right = training.own_steps
    monkeypatch.setattr(
        training,
        "own_steps",
        lambda *given, **named: used.append(named["precision"]) or right(*given, **named),
    )
    set_native(monkeypatch, native)
    found = measured(NAME)
    own, *peers, bound = found.times
    assert own == OWN
    assert peers == [f"{image_gpt.library_name()} ImageGPT, {each}" for each in precisions]
    assert used == [native]
    assert bound.startswith("its FLOPs at the measured rate of matrix products")
    assert len(found.times[OWN]["eager"].seconds) == WATCH.repeats
    assert found.errors == {}


def test_a_peer_of_other_weights_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_gpt, "with_weights_of", peer_of_other_weights)
    with pytest.raises(NumericsError, match="logits differ"):
        measured(NAME)


@pytest.mark.parametrize("steps", ["own_steps", "peer_steps"])
def test_another_loss_of_a_step_is_an_error(steps: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(training, steps)

    def wrong(*args: object, **settings: object) -> dict:
        return {name: lambda step=step: 1.05 * step() for name, step in right(*args, **settings).items()}

    monkeypatch.setattr(training, steps, wrong)
    with pytest.raises(NumericsError, match="training step: loss"):
        measured(NAME)


def test_steps_do_not_change_the_weights() -> None:
    recipe = networks.find_recipe("igpt.digits", ("depth=1", "width=16"))
    network = networks.random_network(recipe, CPU)
    before = {name: weight.clone() for name, weight in network.tensors().items()}
    images = networks.random_images(recipe, 2, CPU)
    other = image_gpt.with_weights_of(network)
    model = PretrainModel(network, recipe.objective)
    ours = training.own_steps(model, images, precision="bf16", compiled=False)["eager"]
    theirs = training.peer_steps(other, network, images, precision="fp32", compiled=False)["eager"]
    losses = [float(step()) for step in (ours, ours, theirs, theirs)]
    assert losses[0] == losses[1] == pytest.approx(losses[2], rel=1e-2)
    assert losses[2] == losses[3] == pytest.approx(training.float_loss(model, images), rel=1e-5)
    assert all(torch.equal(weight, before[name]) for name, weight in network.tensors().items())
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_the_bound_is_the_time_of_the_flops(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = networks.find_recipe("igpt.digits")
    monkeypatch.setattr(type(WATCH), "matmul_rate", lambda *_: 1e9)
    monkeypatch.setattr(training, "peak_flops", lambda *_: 4e9)
    measured_rate, peak = training.matmul_bounds(recipe, WATCH).values()
    assert measured_rate[""].median == recipe_cost(recipe).training_flops / 1e9
    assert peak[""].median == recipe_cost(recipe).training_flops / 4e9
