"""The loss decodes graded positions alone, and takes no more memory than they need."""

import math
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from isopix.codecs import BytesSpec
from isopix.core.random import generator
from isopix.data.dataset import DataConfig
from isopix.model.blocks import ConvolutionSpec
from isopix.model.network import Network
from isopix.model.spec import ModelSpec
from isopix.objectives.masked import Masked
from isopix.objectives.masks import BernoulliMask, MaskSpec, PerChannelMask
from isopix.recipes.recipe import Recipe

IMAGES, SIDE = 16, 16


class Largest(TorchDispatchMode):
    """Remembers the most elements that any tensor has had, forward or backward."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        for each in answer if isinstance(answer, tuple | list) else [answer]:
            if isinstance(each, torch.Tensor):
                self.elements = max(self.elements, each.numel())
        return answer


def network(mask: MaskSpec) -> Network:
    recipe = Recipe(
        name="memory",
        model=ModelSpec(
            codec=BytesSpec(),
            block=ConvolutionSpec(),
            depth=1,
            width=8,
        ),
        data=DataConfig(rows=SIDE, cols=SIDE),
        objective=Masked(mask=mask),
    )
    return recipe.build(recipe.model.codec.placeholder(recipe.grid))


@pytest.mark.parametrize(("mask", "share"), [(BernoulliMask(), 0.15), (PerChannelMask(), 1 - 0.85**3)])
def test_no_tensor_is_as_large_as_the_logits_of_all_positions(mask: MaskSpec, share: float) -> None:
    """The largest are the logits of the graded positions, and eight deviations of a spare."""
    net = network(mask)
    images = torch.randint(256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator(0, "images"))
    problem = net.prepare(images, generator(0, "mask"))
    with Largest() as largest:
        net(problem).backward()
    positions = IMAGES * SIDE * SIDE
    most = share * positions + 8 * math.sqrt(positions * share * (1 - share)) + 9
    assert 0.9 * share * positions * 768 < largest.elements <= most * 768
    with Largest() as largest, torch.no_grad():
        net.nll(problem)
    assert largest.elements == problem.graded.any(-1).sum() * 768


@pytest.mark.parametrize("mask", [BernoulliMask(), PerChannelMask()])
def test_an_untrained_network_needs_ln_256_a_channel_and_three_times_that_a_pixel(mask: MaskSpec) -> None:
    """Our unit is a graded code; the study sums over a pixel's three."""
    net = network(mask)
    images = torch.randint(256, (2, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator(0, "images"))
    problem = net.prepare(images, generator(0, "mask"))
    assert net(problem).item() == pytest.approx(math.log(256), rel=1e-6)
    assert net(problem).item() == pytest.approx(5.545177, rel=1e-6)
    chances = net.logits(images, problem.hidden).log_softmax(-1)
    pixels = -chances.gather(-1, problem.answers[..., None]).sum((2, 3))
    assert torch.allclose(pixels, torch.tensor(16.635532), rtol=1e-6)
