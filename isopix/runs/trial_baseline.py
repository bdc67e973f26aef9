"""What a trial of a learning-rate search must exceed: the frequencies of the codes, or of the classes."""

from dataclasses import replace

import torch

from isopix.codecs.base import Codec
from isopix.data.dataset import ImageDataset
from isopix.data.splits import Split
from isopix.recipes.recipe import Recipe
from isopix.runs.load import WEIGHTS, codec_of, find_checkpoint
from isopix.storage.run_folder import RunFolder
from isopix.train.early_stopping import chance_level_warning
from isopix.train.lr_search import LRTrial

NEAR_UNIFORM = 0.99  # of the uniform loss: a network that has learned next to nothing
NUM_COUNTED = 10_000  # training images whose codes are counted
BATCH_SIZE = 256


def check_trial(recipe: Recipe, data: ImageDataset, run: RunFolder, trial: LRTrial) -> LRTrial:
    """Return the trial, as failed with a reason if its validation loss is no better than that of the unigram
    frequencies of the codes in training, or is near the uniform loss; in fine-tuning, if its validation
    accuracy is not above chance.
    """
    if trial.status != "completed":
        return trial
    validation = data.validation.sample(recipe.train.evaluate_images)
    if trial.accuracy is not None:
        assert validation.labels is not None, "checked by require_labels"
        reason = chance_level_warning(trial.accuracy, validation.labels).partition(";")[0]
    else:
        codec = codec_of(find_checkpoint(run.path, WEIGHTS)[0])
        reason = _loss_reason(recipe, codec, data.train.sample(NUM_COUNTED), validation, trial)
    return replace(trial, status="failed", reason=reason) if reason else trial


def unigram_nats(codec: Codec, train: Split, images: Split) -> float:
    """Return the loss of `images`, in nats per code, under the frequencies of each code's values in `train`,
    with one added to every count.
    """
    counts = torch.ones(codec.num_codes, codec.vocab_size, dtype=torch.float64)
    for batch in torch.split(train.images, BATCH_SIZE):
        codes = codec.encode(batch).flatten(0, 1)
        counts += torch.stack([each.bincount(minlength=codec.vocab_size) for each in codes.unbind(1)])
    nats = -(counts / counts.sum(1, keepdim=True)).log()
    losses = [
        nats[torch.arange(codec.num_codes), codec.encode(batch)]
        for batch in torch.split(images.images, BATCH_SIZE)
    ]
    return torch.cat(losses).mean().item()


def _loss_reason(recipe: Recipe, codec: Codec, train: Split, validation: Split, trial: LRTrial) -> str:
    """Why a loss shows that nothing was learned; empty if it does not, or if codes have no probability."""
    if trial.loss is None or not recipe.model.head.categorical:
        return ""
    uniform = torch.tensor(codec.vocab_size).double().log().item()
    unigram = unigram_nats(codec, train, validation)
    if trial.loss < min(unigram, NEAR_UNIFORM * uniform):
        return ""
    return (
        f"final validation loss {trial.loss:.4f} is not below the unigram baseline {unigram:.4f} "
        f"(uniform {uniform:.4f})"
    )
