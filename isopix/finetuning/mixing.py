"""Labeled batches; mixup and CutMix: each image is mixed with another, and its label with the other's."""

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Images, Labels
from isopix.objectives.base import TrainingBatch


class LabeledBatch(NamedTuple):
    """The objective's batch, the classes of its images, a mask of their features, and weights in L_CLF.

    `own` is the part of L_CLF of an image's `labels`; the rest is that of `others`, which is mixed with it.
    """

    batch: TrainingBatch
    labels: Labels
    others: Labels
    own: Float[Tensor, " B"]
    dropout_mask: Float[Tensor, "B D"]
    weights: Float[Tensor, " B"]

    def to(self, device: torch.device) -> "LabeledBatch":
        batch, *rest = self
        return LabeledBatch(batch.to(device), *(item.to(device, non_blocking=True) for item in rest))

    def chunks(self, count: int) -> Iterator["LabeledBatch"]:
        batch, *rest = self
        split = (item.tensor_split(count) for item in rest)
        return (LabeledBatch(*items) for items in zip(batch.chunks(count), *split, strict=True))


def mix(images: Images, mixup: float, cutmix: float, generator: torch.Generator) -> tuple[Images, float]:
    """Return images mixed with those of the reversed batch, and the weight w of their own labels.

    Mixup (Zhang et al. 2018): w x + (1 - w) x' with w from Beta(mixup, mixup). CutMix (Yun et al. 2019): a
    box of x' of area 1 - w, w from Beta(cutmix, cutmix), at a random center and cut at the border; w becomes
    the area that is left of x. One w for a batch; of both methods a coin chooses, as in timm. 0 is none.
    """
    first, seed = torch.rand((), generator=generator), torch.randint(2**31, (), generator=generator)
    boxes = cutmix > 0 and (mixup == 0 or bool(first < 0.5))
    alpha, random = cutmix if boxes else mixup, np.random.default_rng(int(seed))
    own, others = random.beta(alpha, alpha), images.flip(0)
    if not boxes:
        mixed = own * images + (1 - own) * others
        return mixed.round().to(torch.uint8), own
    rows, cols = images.shape[2:]
    height, width = (int(side * sqrt(1 - own)) for side in (rows, cols))
    top, left = (random.integers(rows) - height // 2, random.integers(cols) - width // 2)
    inside = torch.zeros(rows, cols, dtype=torch.bool, device=images.device)
    inside[max(0, top) : top + height, max(0, left) : left + width] = True
    return torch.where(inside, others, images), 1 - inside.float().mean().item()
