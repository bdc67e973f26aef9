"""The loss decodes only positions in the loss, and takes no more memory than they need."""

import math
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from isopix.codecs.patches import BytesSpec
from isopix.core.random import generator
from isopix.data.dataset import DataConfig
from isopix.model.blocks.convolution import ConvolutionSpec
from isopix.model.spec import ModelSpec
from isopix.objectives.base import PretrainModel, nll_per_image
from isopix.objectives.masks import BernoulliMask, MaskSpec, PerChannelMask
from isopix.objectives.objectives import Masked
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


def build(mask: MaskSpec) -> PretrainModel:
    network = ModelSpec(codec=BytesSpec(), block=ConvolutionSpec(), depth=1, width=8)
    data = DataConfig(rows=SIDE, cols=SIDE)
    recipe = Recipe(name="memory", model=network, data=data, objective=Masked(mask=mask))
    return PretrainModel(recipe.build(network.codec.placeholder(recipe.grid)), recipe.objective)


@pytest.mark.parametrize(("mask", "fraction"), [(BernoulliMask(), 0.15), (PerChannelMask(), 1 - 0.85**3)])
def test_no_tensor_is_as_large_as_the_logits_of_all_positions(mask: MaskSpec, fraction: float) -> None:
    """The largest are the logits of the positions in the loss, with eight standard deviations to spare."""
    model = build(mask)
    images = torch.randint(256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator(0, "images"))
    batch = model.make_batch(images, generator(0, "mask"))
    with Largest() as largest:
        model(batch).backward()
    positions = IMAGES * SIDE * SIDE
    most = fraction * positions + 8 * math.sqrt(positions * fraction * (1 - fraction)) + 9
    assert 0.9 * fraction * positions * 768 < largest.elements <= most * 768
    with Largest() as largest, torch.no_grad():
        nll_per_image(model.network, batch)
    assert largest.elements == batch.loss_mask.any(-1).sum() * 768
