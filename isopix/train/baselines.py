"""Learning-free baselines of a run, on the images and under the masks of its own evaluation."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from isopix.codecs.base import Codec
from isopix.data.splits import Split
from isopix.model.heads import HeadSpec
from isopix.objectives.base import PretrainModel
from isopix.objectives.baselines import MaskedCodes, Unigram
from isopix.train.evaluator import BATCH_SIZE, evaluation_batches

TRAINING_IMAGES = 4096  # at most, to count codes in
MAX_CODES = 2**25  # of all held-out images: 32,768 of 32x32 pixels, 8,192 of 64x64


def measure_baselines(
    model: PretrainModel, head: HeadSpec, train: Split, held_out: Mapping[str, Split], *, seed: int
) -> dict[str, dict[str, Any]]:
    """Return for each split the loss of every baseline, `nats`, in mean nats per predicted code.

    Images and masks are those of `evaluate_split`, of a split with more than MAX_CODES codes the first ones.
    """
    codec = model.network.codec
    chosen = [each for each in model.objective.baselines if each.applies(codec, head)]
    if not chosen or not len(train):
        return {}
    counted, unigram = train.sample(TRAINING_IMAGES), Unigram(codec, head)
    fitted = [each(codec, head) for each in chosen]
    for batch in code_batches(model, counted, seed):
        for each in (unigram, *fitted):
            each.fit(batch)
    records = {}
    for name, split in held_out.items():
        images = _capped(split, codec)
        for batch in code_batches(model, images, seed):
            for baseline in fitted:
                baseline.update(batch)
        if len(images):
            nats = {baseline.name: baseline.pop_nats() for baseline in fitted}
            numbers = {"images": len(images), "train_images": len(counted)}
            records[name] = {**numbers, "modes": unigram.modes, "nats": nats}
    return records


def _capped(split: Split, codec: Codec) -> Split:
    most = max(1, MAX_CODES // (codec.grid.positions * codec.num_codes * BATCH_SIZE)) * BATCH_SIZE
    return split if len(split) <= most else split.select(torch.arange(most))


def code_batches(model: PretrainModel, split: Split, seed: int) -> Iterator[MaskedCodes]:
    """Yield the codes and masks of the batches of an evaluation of a split."""
    codec = model.network.codec
    for images, _, generator in evaluation_batches(split, seed, model.network.device):
        yield model.objective.make_batch(images, codec, generator).masked_codes(codec)
