"""A class head reads the features of its pool."""

import pytest
import torch

from isopix.finetuning.classifier import FineTuneModel
from isopix.finetuning.config import FineTuneConfig
from isopix.recipes.recipe import Recipe
from tests.laws import cases
from tests.unit.finetuning.test_classifier import CLASSES, both, finetune_model, make_batch


@both
def test_a_head_on_cells_reads_the_means_of_each(recipe: Recipe) -> None:
    made, grid = finetune_model(recipe, pool="grid2"), recipe.grid
    labeled = make_batch(made, recipe)
    tokens = list(made.network.backbone.features(labeled.batch.inputs, labeled.batch.mask))[made.layer]
    rows, cols = grid.rows // 2, grid.cols // 2
    assert (grid.rows, grid.cols) == (2 * rows, 2 * cols)
    positions = tokens.reshape(len(tokens), 2, rows, 2, cols, -1)
    features = positions.mean((2, 4)).flatten(1)
    assert made.head.weight.shape == (CLASSES, 4 * recipe.model.width)
    torch.testing.assert_close(made.class_logits(tokens), features @ made.head.weight.T, rtol=1e-4, atol=1e-5)


def test_a_pool_of_more_cells_than_the_grid_is_refused() -> None:
    small = next(case for case in cases.masked() if min(case.grid) < 4)
    with pytest.raises(ValueError, match=r"^pool grid4 needs 4 x 4 positions or more, and there are "):
        FineTuneModel(cases.model(small), small.model.width, CLASSES, FineTuneConfig(pool="grid4"))
