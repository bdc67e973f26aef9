"""The tiny sizes of benchmarks, measured once."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from isopix.benchmarks import networks, timing
from isopix.benchmarks.benchmark import TINY, Benchmark, Measured
from isopix.benchmarks.image_gpt import with_weights_of
from isopix.benchmarks.run import BENCHMARKS
from isopix.benchmarks.timing import Stopwatch
from isopix.model.network import Network

CPU = torch.device("cpu")
WATCH = Stopwatch(CPU, repeats=2)


def set_native(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    """Let the CPU have instructions for this precision, whatever it is."""
    monkeypatch.setattr(timing, "native_precision", lambda device: precision)


def find(name: str) -> Benchmark[Any]:
    [found] = [each for each in BENCHMARKS if each.name == name]
    return found


def measured(name: str, **changes: Any) -> Measured:
    found = find(name)
    return found.measure(replace(found.sizes[TINY], **changes), WATCH)


def network(*settings: str, seed: int = 0, recipe: str = "igpt.digits") -> Network:
    made = networks.random_network(
        networks.find_recipe(recipe, ("depth=2", "width=16", *settings)), CPU, seed=seed
    )
    return made.eval()


def peer_of_other_weights(given: Network) -> nn.Module:
    """Hugging Face's model of the same size with the weights of another seed, which is to be noticed."""
    settings = (f"depth={given.backbone.depth}", f"width={given.head.project.weight.shape[1]}")
    return with_weights_of(network(*settings, seed=1))
