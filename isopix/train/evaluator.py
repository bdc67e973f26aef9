"""Grades on held-out images, with the same masks every time."""

from collections import defaultdict
from collections.abc import Callable

import torch

from isopix.core.device import Precision, autocast
from isopix.core.random import generator
from isopix.data.splits import Split
from isopix.train.tasks import Learner

BATCH = 16  # images; what is drawn depends on it, so it is no setting


@torch.no_grad()
def held_out(
    learner: Learner,
    split: Split,
    *,
    seed: int,
    precision: Precision,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, float]:
    """The learner's grades, each the mean over these images.

    Whatever is drawn depends on `seed` and the batch's place alone. `progress` is told how many images are
    done.
    """
    module = learner.module
    device = next(module.parameters()).device
    totals: defaultdict[str, float] = defaultdict(float)
    module.eval()
    for place, start in enumerate(range(0, len(split), BATCH)):
        images = split.images[start : start + BATCH].to(device)
        labels = None if split.labels is None else split.labels[start : start + BATCH].to(device)
        with autocast(device, precision):
            grades = learner.grade(images, labels, generator(seed, "evaluation", place))
        for name, grade in grades.items():
            totals[name] += float(grade) * len(images)
        progress(start + len(images))
    module.train()
    return {name: total / len(split) for name, total in totals.items()}
