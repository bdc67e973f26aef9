"""The settings of the published fine-tuning, by hand."""

from isopix.studies.papers import vit
from isopix.studies.papers.setup import Setup
from isopix.studies.papers.trials import FineTune
from isopix.train.optim import SGD, WarmupCosineSchedule


def test_fine_tuning_is_as_published() -> None:
    """SGD, momentum 0.9, batch size 512, cosine decay, gradient norm 1, 384 pixels, and the classes alone."""
    trial = next(cell.trial for row in vit.finetuning(Setup("paper")) for cell in row.cells.values())
    assert isinstance(trial, FineTune)
    assert [words[0] for words in trial.grid] == [f"optimizer.lr={lr}" for lr in (0.003, 0.01, 0.03, 0.06)]
    recipe = trial.trainings()[0]
    assert recipe.train.optimizer == SGD(lr=0.003, momentum=0.9)
    assert recipe.train.schedule == WarmupCosineSchedule(warmup_epochs=0.0)
    assert (recipe.train.max_grad_norm, recipe.train.batch_size, recipe.train.steps) == (1.0, 512, 20_000)
    assert (recipe.data.rows, recipe.data.cols, recipe.data.source) == (384, 384, "imagenet-1k")
    assert recipe.finetune is not None
    assert (recipe.finetune.generative_weight, recipe.finetune.pool) == (0.0, "first")
    assert recipe.finetune.patience is None
    assert trial.refit


def test_few_shot_reads_the_class_token_after_the_last_block() -> None:
    trial = next(cell.trial for row in vit.few_shot(Setup("paper")) for cell in row.cells.values())
    options = trial.options
    assert (options["method"], options["layer"], options["pool"]) == ("ridge", 12, "first")
