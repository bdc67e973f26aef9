"""Nearest neighbours: an image gets the class of the training images whose features point as its own do."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.registry import register
from isopix.probe.base import Probabilities, ProbeMethod, Solved, Task
from isopix.probe.feature_splits import Features, Frame, Split, Standard

TEMPERATURE = 0.07  # Wu, Xiong, Yu, Lin 2018, Unsupervised Feature Learning via Non-Parametric Instance
NEIGHBOURS = 20  # Discrimination, section 3.4; as few as this only among some hundred images
BLOCK = 1024  # images that are compared with all training images at once


@register("knn")
class Knn(ProbeMethod):
    """Each of the nearest k training images votes with weight exp(cosine / temperature), cosines being of
    standardised features (Wu et al. 2018, section 3.4); validation chooses k.
    """

    neighbours: tuple[int, ...] = (10, 20, 50, 100, 200)
    temperature: float = TEMPERATURE

    def __post_init__(self) -> None:
        if not self.neighbours or min(self.neighbours) < 1:
            raise ValueError(f"neighbours {self.neighbours} must be one or more numbers of at least 1")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature} must be positive")

    @property
    def stored(self) -> bool:
        return False

    def grid(self, strengths: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        return "neighbours", ()

    def only(self, setting: int | float) -> "Knn":
        return replace(self, neighbours=(int(setting),))

    def solve(self, task: Task) -> Iterator[Solved]:
        for layer in range(len(task.splits.train.features)):
            yield self._one(task, layer)

    def _one(self, task: Task, layer: int) -> Solved:
        part = task.splits.layers(layer, layer + 1).map(lambda split: split.to(task.device))
        counts = _possible(self.neighbours, len(part.train))
        memory = _Memory(part.train, task, part.frame, self.temperature)
        answers = memory.shares(part.validation.features, counts).argmax(-1)
        accuracies = task.right(answers, part.validation.labels).double().mean(-1)
        best = int(accuracies.argmax())

        def classify(features: Features) -> Probabilities:
            return memory.shares(features, counts[best : best + 1])

        return Solved(accuracies[best : best + 1].cpu(), classify, [{"neighbours": counts[best]}])

    def label(self) -> str:
        return "k-nearest neighbors"


class _Memory:
    """One layer's images that vote."""

    def __init__(self, learnt: Split, task: Task, frame: Frame | None, temperature: float):
        self.standard, self.temperature = Standard.of(learnt, frame), temperature
        self.points, self.targets = self.standard(learnt.features)[0], task.targets(learnt.labels)
        self.classes = len(task.classes)

    def shares(self, features: Features, counts: Sequence[int]) -> Float[Tensor, "S B C"]:
        queries = self.standard(features)[0]
        return shares(
            queries,
            self.points,
            self.targets,
            counts=counts,
            classes=self.classes,
            temperature=self.temperature,
        )


def shares(
    queries: Float[Tensor, "B D"],
    points: Float[Tensor, "N D"],
    targets: Int[Tensor, " N"],
    *,
    counts: Sequence[int],
    classes: int,
    temperature: float = TEMPERATURE,
) -> Float[Tensor, "S B C"]:
    """Each class's share of the votes of the nearest k of `points`, for each k in `counts`."""
    queries, points = F.normalize(queries, dim=-1), F.normalize(points, dim=-1)
    parts = (queries[start : start + BLOCK] for start in range(0, len(queries), BLOCK))
    blocks = [
        _votes(part @ points.T, targets, counts=counts, classes=classes, temperature=temperature)
        for part in parts
    ]
    return torch.cat(blocks, 1)


def _votes(
    cosines: Float[Tensor, "B N"],
    targets: Int[Tensor, " N"],
    *,
    counts: Sequence[int],
    classes: int,
    temperature: float,
) -> Float[Tensor, "S B C"]:
    nearest = cosines.topk(max(counts), dim=-1)
    weights, voters = (nearest.values / temperature).exp(), targets[nearest.indices]
    votes = cosines.new_zeros(len(counts), len(cosines), classes)
    for place, count in enumerate(counts):
        votes[place].scatter_add_(1, voters[:, :count], weights[:, :count])
    return votes / votes.sum(-1, keepdim=True)


def neighbours(learnt: Split, asked: Split, *, count: int = NEIGHBOURS) -> list[float]:
    """How often the nearest `count` of the learnt images tell the class of those asked about, by layer.

    Nothing is fitted: a few hundred images a layer take milliseconds.
    """
    standard, counts = Standard.of(learnt), _possible([count], len(learnt))
    classes = int(learnt.labels.max()) + 1
    accuracies = []
    for points, queries in zip(standard(learnt.features), standard(asked.features), strict=True):
        votes = shares(queries, points, learnt.labels, counts=counts, classes=classes)[0]
        accuracies.append((votes.argmax(-1) == asked.labels).double().mean().item())
    return accuracies


def _possible(counts: Sequence[int], most: int) -> list[int]:
    """The most first, so that of equally good numbers the largest is chosen; none above `most`."""
    return sorted({min(count, most) for count in counts}, reverse=True)
