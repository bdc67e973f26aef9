import pytest
import torch
from torch import nn

from isopix.train.optim import SGD, AdamW


def test_decay_shrinks_matrices_and_leaves_norms_and_biases() -> None:
    """With a gradient of zero, decay is all that moves a weight."""
    layer, norm = nn.Linear(3, 2), nn.LayerNorm(2)
    with torch.no_grad():
        layer.bias.fill_(1.0)
    weight = layer.weight.detach().clone()
    optimizer = AdamW(lr=0.5, weight_decay=0.1).build([*layer.parameters(), *norm.parameters()])
    for parameter in (*layer.parameters(), *norm.parameters()):
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), weight * (1 - 0.5 * 0.1))
    assert (layer.bias == 1).all()
    assert (norm.weight == 1).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weight_decay": -1.0}, "weight_decay -1.0 must be a number of at least 0"),
        ({"lr": 0.0}, "lr 0.0 must be a number greater than 0"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdamW(**values)


def test_sgd_adds_gradients_to_a_decaying_velocity() -> None:
    """v = 0.9 v + g; w = w - lr v, by hand over three steps."""
    weight, velocity = nn.Parameter(torch.tensor([1.0, -2.0])), torch.zeros(2, dtype=torch.float64)
    expected = weight.detach().double()
    optimizer = SGD(lr=0.1).build([weight])
    for gradient in ([0.5, 1.0], [-1.0, 2.0], [0.0, 0.25]):
        weight.grad = torch.tensor(gradient)
        optimizer.step()
        velocity = 0.9 * velocity + torch.tensor(gradient, dtype=torch.float64)
        expected = expected - 0.1 * velocity
    torch.testing.assert_close(weight.detach().double(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("values", [{"lr": 0.0}, {"momentum": 1.0}, {"momentum": -0.1}])
def test_impossible_settings_of_sgd_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="allowed"):
        SGD(**values)
