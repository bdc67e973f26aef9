"""Bytes that are saved for the backward pass, against sums by hand."""

import torch
from torch import Tensor, nn

from isopix.recipes.cost import activation_bytes


def test_a_linear_layer_saves_its_input_and_a_sigmoid_its_output() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 3))
    assert activation_bytes(lambda: net(torch.ones(7, 6)), exclude=net.parameters()) == 4 * 7 * (6 + 5)


def test_tensors_that_share_memory_count_once() -> None:
    given = torch.ones(8, 4, requires_grad=True)

    def forward() -> Tensor:
        copy = given + 1
        one, other = copy.chunk(2)
        return one * other + copy[:4].square()

    assert activation_bytes(forward, exclude=()) == 4 * 8 * 4
