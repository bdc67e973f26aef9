from itertools import product

from isopix.studies.papers import patchformer
from isopix.studies.papers.setup import Setup
from isopix.train.optim import AdamW


def test_every_batch_size_and_rate_is_tried_with_every_fraction_of_the_labels() -> None:
    """Section 2.2: batch sizes {16, 32, 64, 128, 256}, learning rates {3e-5, 2e-4, 4e-4, 1e-3}."""
    (row,) = patchformer.top_1(Setup("paper"))
    tried = set()
    for cell in row.cells.values():
        (fraction,) = (word for word in cell.trial.settings if word.startswith("data.labels_per_class="))
        for size, lr in cell.trial.grid:
            tried.add((fraction[22:], int(size[11:]), float(lr[13:])))
    fractions, sizes = ("1%", "10%", "20%"), (16, 32, 64, 128, 256)
    assert tried == set(product(fractions, sizes, (3e-5, 2e-4, 4e-4, 1e-3)))
    trial = row.cells["1% of the labels"].trial
    recipe = trial.network.finetune_recipe((*trial.settings, *trial.grid[0]))
    assert (recipe.data.labels_per_class, recipe.train.batch_size) == ("1%", 16)
    assert recipe.train.optimizer == AdamW(lr=3e-5)
    assert recipe.finetune is not None
    assert (recipe.finetune.mask_ratio, recipe.finetune.label_smoothing) == (0.1, 0.01)


def test_both_tables_share_their_trials() -> None:
    first, second = (rows(Setup("paper")) for rows in (patchformer.top_1, patchformer.top_5))
    assert [each.name for row in first for each in row.trials()] == [
        each.name for row in second for each in row.trials()
    ]
