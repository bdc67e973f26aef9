"""Online probe: nearest neighbours during pre-training, which say early whether anything is being learnt."""

from typing import Any

import torch

from isopix.core.random import generator
from isopix.data import splits
from isopix.data.dataset import ImageSet
from isopix.model.network import Network
from isopix.probe.feature_splits import Split
from isopix.probe.features import extract
from isopix.probe.knn import neighbours
from isopix.recipes.recipe import Recipe


class Neighbours:
    """How many of some validation images the nearest of as many training images tell the class of.

    The features are those of the middle layer, where the paper's probes peak (iGPT section 4.1). Which images
    is a function of the recipe's seed. Raises ValueError where there are no labels.
    """

    def __init__(self, network: Network, recipe: Recipe, data: ImageSet):
        self.network, self.recipe, self.data = network, recipe, data
        if recipe.train.knn_images:
            data.require_labels("neighbours")

    def measure(self) -> dict[str, Any]:
        """What an evaluation adds to its record: nothing without neighbours, or without validation images."""
        if not self.recipe.train.knn_images or not len(self.data.validation):
            return {}
        learnt, asked = (self._some(split) for split in (self.data.train, self.data.validation))
        return {"neighbours_accuracy": neighbours(learnt, asked)[0]}

    def _some(self, split: splits.Split) -> Split:
        order = torch.randperm(len(split), generator=generator(self.recipe.train.seed, "neighbours"))
        some = split.take(order[: self.recipe.train.knn_images])
        assert some.labels is not None
        middle = self.network.truncated(self.network.backbone.depth // 2)
        return Split(extract(middle, some.images, precision=self.recipe.train.precision)[-1:], some.labels)
