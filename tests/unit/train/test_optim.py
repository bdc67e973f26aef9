import pytest
import torch
from torch import nn

from isopix.train.optim import AdamW


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
