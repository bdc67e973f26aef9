"""Bytes that are activation_bytes, against sums by hand."""

import torch
from torch import Tensor, nn

from isopix.model.profiling import activation_bytes


def test_a_linear_layer_keeps_its_input_and_a_sigmoid_its_output() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 3))
    assert activation_bytes(lambda: net(torch.ones(7, 6)), apart_from=net.parameters()) == 4 * 7 * (6 + 5)


def test_weights_count_unless_they_are_left_out() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    more = activation_bytes(lambda: net(torch.ones(7, 6)), apart_from=()) - activation_bytes(
        lambda: net(torch.ones(7, 6)), apart_from=net.parameters()
    )
    assert more == 4 * 5 * 3  # the second matrix alone, for nobody asks the gradient of the first one's input


def test_what_shares_memory_counts_once_and_whole() -> None:
    given = torch.ones(8, 4, requires_grad=True)

    def forward() -> Tensor:
        copy = given + 1
        one, other = copy.chunk(2)
        return one * other + copy[:4].square()

    assert activation_bytes(forward, apart_from=()) == 4 * 8 * 4


def test_without_gradients_nothing_is_kept() -> None:
    with torch.no_grad():
        assert activation_bytes(lambda: nn.Linear(6, 5)(torch.ones(7, 6)), apart_from=()) == 0
