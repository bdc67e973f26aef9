"""What a trial of a learning-rate search must exceed: the frequencies of the codes, or of the classes."""

import math
from dataclasses import replace

from isopix.data.dataset import ImageDataset
from isopix.recipes.recipe import Recipe
from isopix.runs.checkpoint_content import codec_of
from isopix.runs.load import WEIGHTS, find_checkpoint
from isopix.runs.origin import unigram_nats
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.early_stopping import chance_level_warning
from isopix.train.lr_search import LRTrial

NEAR_UNIFORM = 0.99  # of the uniform loss: a network that has learned next to nothing


def check_trial(recipe: Recipe, data: ImageDataset, run: RunFolder, trial: LRTrial) -> LRTrial:
    """Return the trial, as failed with a reason if its validation loss is not below that of the unigram
    baseline in its log, or is near the uniform loss; in fine-tuning, if its validation accuracy is not above
    chance.
    """
    if trial.status != "completed":
        return trial
    if trial.accuracy is None:
        reason = _loss_reason(recipe, run, trial)
    else:
        validation = data.validation.sample(recipe.train.evaluate_images)
        assert validation.labels is not None, "checked by require_labels"
        reason = chance_level_warning(trial.accuracy, validation.labels).partition(";")[0]
    return replace(trial, status="failed", reason=reason) if reason else trial


def _loss_reason(recipe: Recipe, run: RunFolder, trial: LRTrial) -> str:
    """Why a loss shows that nothing was learned; empty if it does not."""
    unigram = unigram_nats(read_log(run.log))
    bounds = {} if unigram is None else {f"the unigram baseline {unigram:.4f}": unigram}
    if recipe.model.head.categorical:
        uniform = math.log(codec_of(find_checkpoint(run.path, WEIGHTS)[0]).vocab_size)
        bounds[f"{NEAR_UNIFORM:.0%} of the uniform loss {uniform:.4f}"] = NEAR_UNIFORM * uniform
    loss, lowest = trial.loss, min(bounds, key=bounds.__getitem__, default="")
    if loss is None or not lowest or loss < bounds[lowest]:
        return ""
    return f"final validation loss {loss:.4f} is not below {lowest}"
