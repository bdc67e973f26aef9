"""The peak memory of a training step includes its gradients."""

import pytest
import torch
from torch import nn

from isopix.benchmarks import training
from isopix.benchmarks.timing import Timed, Times, Work


def test_gradients_of_the_step_before_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, held = nn.Linear(3, 2), list[bool]()
    layer(torch.ones(1, 3)).sum().backward()

    def peak(device: torch.device, call: object) -> int:
        held.append(layer.weight.grad is not None)
        return 7

    monkeypatch.setattr(training, "peak_memory", peak)
    sides = {"isopix": {"eager": Work(call=lambda: None, items=1)}}
    timed = Timed(times={"isopix": {"eager": Times([1.0])}}, errors={})
    found = training.peak_memories(sides, timed, torch.device("cpu"), [layer])
    assert found == {"peak memory, isopix, eager": 7}
    assert held == [False]
