"""The loss on held-out images, with the same masks every time."""

from collections.abc import Callable

import torch

from isopix.core.device import Precision, autocast
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.train.learners import Learner

BATCH = 16  # images; what is drawn depends on it, so it is no setting


@torch.no_grad()
def held_out_loss(
    learner: Learner,
    images: Images,
    *,
    seed: int,
    precision: Precision,
    progress: Callable[[int], None] = lambda done: None,
) -> float:
    """Mean nats per graded code over these images; whatever is drawn depends on `seed` and the batch's
    place alone. `progress` is told how many images are done.
    """
    module = learner.module
    device = next(module.parameters()).device
    total = 0.0
    module.eval()
    for place, start in enumerate(range(0, len(images), BATCH)):
        part = images[start : start + BATCH]
        problem = learner.prepare(part.to(device), None, generator(seed, "evaluation", place))
        with autocast(device, precision):
            loss = module(problem.to(device))
        total += float(loss) * len(part)
        progress(start + len(part))
    module.train()
    return total / len(images)
