"""Mixup and CutMix: each image of a batch is mixed with another, and its label with that of the other."""

from math import sqrt

import numpy as np
import torch

from isopix.core.types import Images


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
