"""Baselines of a run: on the images and under the masks of its own evaluation, for all parts."""

import numpy as np
import pytest
import torch

from isopix.core.types import Images, Labels, Scalar
from isopix.data.splits import Split
from isopix.model.heads import HeadSpec
from isopix.objectives.base import PretrainModel
from isopix.recipes.recipe import Recipe
from isopix.train.evaluator import evaluate_split, measure_baselines
from isopix.train.tasks import PretrainTask
from tests.laws import cases, test_extensions

ALL = [*cases.CASES, *test_extensions.CASES]
TITLES = [cases.title(each) for each in ALL]


class Constant(PretrainTask):
    """The task of a prediction that is the same for every position: the frequency of each value of
    a channel, or its mean.
    """

    def __init__(self, model: PretrainModel, head: HeadSpec, train: Images):
        super().__init__(model)
        self.model, self.head, self.codec = model, head, model.network.codec
        codes = self.channels(self.codec.encode(train).numpy())
        values = np.arange(self.codec.vocab_size)
        counts = np.stack([1 + (codes == value).sum((0, 1)) for value in values])
        self.frequencies = counts / counts.sum(0)
        self.means = values @ self.frequencies

    def channels(self, codes: np.ndarray) -> np.ndarray:
        """[B N Q] as [B points C]: of one position, the channels of a code change fastest."""
        return codes.reshape(len(codes), -1, self.codec.num_codes // self.codec.points_per_side**2)

    def evaluate(
        self, images: Images, labels: Labels | None, generator: torch.Generator
    ) -> dict[str, Scalar]:
        batch = self.model.make_batch(images, generator)
        codes = self.channels(batch.targets.numpy())
        if self.head.categorical:
            losses = -np.log(self.frequencies[codes, np.arange(codes.shape[2])])
        else:
            losses = 2 * ((self.means - codes) / (self.codec.vocab_size - 1)) ** 2
        counted = self.channels(batch.loss_mask.expand_as(batch.targets).numpy())
        means = (losses * counted).sum((1, 2)) / counted.sum((1, 2)).clip(1)
        return {"loss": torch.tensor((means * batch.weights.numpy()).sum())}


@pytest.mark.parametrize("recipe", ALL, ids=TITLES)
def test_baselines_are_of_the_images_and_masks_of_the_evaluation(recipe: Recipe) -> None:
    model, head = cases.model(recipe), recipe.model.head
    images = cases.images(recipe, 40) // 64 * 64  # few colors, so that some are frequent
    train, test = Split(images[:20]), Split(images[20:])
    found = measure_baselines(model, head, train, {"test": test, "validation": Split(images[:0])}, seed=3)
    expected = evaluate_split(Constant(model, head, train.images), test, seed=3, precision="fp32")["loss"]
    assert list(found) == ["test"]
    assert (found["test"]["images"], found["test"]["train_images"]) == (20, 20)
    assert found["test"]["nats"]["unigram"] == pytest.approx(expected, rel=1e-5)
    assert np.isfinite(list(found["test"]["nats"].values())).all()
    names = {"unigram"}
    if recipe.objective.can_sample:
        names |= {"left neighbor", "top neighbor", "PNG", "WebP lossless"}
    elif recipe.objective.masks_input and not recipe.objective.causal:
        names |= {"nearest visible", "visible histogram"}
    assert found["test"]["nats"].keys() == names
