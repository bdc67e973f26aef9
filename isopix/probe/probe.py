"""Probe: how well a classifier tells classes by each layer; chosen on validation, told on test."""

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from isopix.core import bootstrap
from isopix.core.random import generator
from isopix.probe import mask_ensemble
from isopix.probe.base import Solved, Task
from isopix.probe.feature_splits import Split, Splits, standardised
from isopix.probe.results import Ensemble, Joined, LayerScore, Protocol, Record

__all__ = ["Split", "Splits", "probe", "standardised"]

AROUND = 5  # layers that are joined (iGPT section 4.3)
BLOCK = 256  # test images that are answered for at once; the draws of ties depend on it, so it is no setting

Progress = Callable[[int], None]


def probe(
    splits: Splits, protocol: Protocol, *, device: torch.device, progress: Progress | None = None
) -> Record:
    """Every layer at its best strength, rate or number; that and best layer chosen on validation, all
    reported on test.

    Features are standardised by train's mean and deviation. `progress` is told how many layers are done.
    Raises ValueError where there is nothing to learn or choose from, RuntimeError if a chosen fit did not
    converge.
    """
    _check(splits)
    # Apple's devices have no float64, without which a fit cannot be proven to have converged.
    device = torch.device("cpu") if device.type == "mps" else device
    judge = _Judge(splits, protocol, device)
    scores = judge.scores(splits, progress)
    best = max(range(len(scores)), key=lambda layer: scores[layer].validation)
    return Record(
        layers=tuple(scores),
        best=best,
        classes=len(judge.classes),
        majority=(splits.test.labels == splits.train.labels.mode().values).double().mean().item(),
        images={name: len(getattr(splits, name)) for name in ("train", "validation", "test")},
        warnings=_warnings(scores, protocol),
        joined=_joined(splits, best, judge) if protocol.layers == "best5" else None,
    )


class _Judge:
    """Solves layers by the protocol's method and grades their answers on the test images."""

    def __init__(self, splits: Splits, protocol: Protocol, device: torch.device):
        self.protocol, self.device = protocol, device
        self.classes = torch.tensor(sorted(set(splits.train.labels.tolist())), device=device)
        random = generator(protocol.seed, "probe.bootstrap")
        self.resamples = bootstrap.draw_resamples(len(splits.test), protocol.resamples, random)

    def scores(self, splits: Splits, progress: Progress | None = None) -> list[LayerScore]:
        """The score of every layer."""
        task, scores = self._task(splits), list[LayerScore]()
        for solved in self.protocol.method.solve(task):
            scores += self._grade(solved, splits.layers(len(scores), len(scores) + len(solved.told)), task)
            if progress:
                progress(len(scores))
        return scores

    def _task(self, splits: Splits) -> Task:
        how = self.protocol
        return Task(splits, self.classes, self.device, how.strengths, how.weaker, how.seed)

    def _grade(self, solved: Solved, splits: Splits, task: Task) -> list[LayerScore]:
        hits, ensembles = self._answers(solved, splits, task)
        low, high = bootstrap.percentile_interval(hits, self.resamples)
        columns = (solved.validation, hits.double().mean(1), low, high)
        rows = zip(*(column.tolist() for column in columns), solved.told, ensembles, strict=True)
        unknown = dict.fromkeys(("strength", "objective", "gradient", "steps"))
        return [
            LayerScore(
                layer=splits.first + place,
                validation=validation,
                test=test,
                low=low,
                high=high,
                ensemble=ensemble if self.protocol.masks else None,
                **unknown | told,
            )
            for place, (validation, test, low, high, told, ensemble) in enumerate(rows)
        ]

    def _answers(
        self, solved: Solved, splits: Splits, task: Task
    ) -> tuple[Bool[Tensor, "F B"], list[Ensemble]]:
        """Whether the vote over all readings is right, and how right one reading and their mean are."""
        numbers = range(splits.first, splits.first + len(solved.told))
        draws = [generator(self.protocol.seed, "probe.vote", number) for number in numbers]
        modal, single, mean = [], [], []
        for start in range(0, len(splits.test), BLOCK):
            part = slice(start, start + BLOCK)
            labels = splits.test.labels[part]
            features = (reading.features[:, part].to(self.device) for reading in splits.readings)
            given = torch.stack([solved.classify(each) for each in features], 1)  # [F K b C]
            voted = torch.stack(
                [mask_ensemble.modal(*pair) for pair in zip(given.argmax(-1), draws, strict=True)]
            )
            averaged = torch.stack([mask_ensemble.mean_probability(each) for each in given])
            modal.append(task.right(voted, labels).cpu())
            single.append(task.right(given.argmax(-1), labels).double().mean(1).cpu())
            mean.append(task.right(averaged, labels).cpu())
        shares = (torch.cat(blocks, 1).double().mean(1).tolist() for blocks in (single, mean))
        return torch.cat(modal, 1), [Ensemble(*pair) for pair in zip(*shares, strict=True)]


def _joined(splits: Splits, best: int, judge: _Judge) -> Joined | None:
    """The five layers around the best as one, moved inwards at an end; all where there are no five."""
    count = len(splits.train.features)
    size = min(AROUND, count)
    first = min(max(best - AROUND // 2, 0), count - size)
    if size < 2:
        return None
    [score] = judge.scores(splits.layers(first, first + size).joined())
    return Joined(tuple(range(splits.first + first, splits.first + first + size)), score)


def _check(splits: Splits) -> None:
    for name in ("train", "validation", "test"):
        split = getattr(splits, name)
        if not len(split):
            raise ValueError(f"the {name} split holds no images; a probe needs some in every split")
    for name, split in _named(splits):
        for block in split.blocks():
            for layer in torch.nonzero(~block.features.isfinite().all(2).all(1)).flatten().tolist():
                number = splits.first + layer
                raise RuntimeError(f"features of layer {number} are not finite in the {name} split")
    if len(set(splits.train.labels.tolist())) < 2:
        raise ValueError("the train split holds images of one class only; a probe needs two or more")


def _named(splits: Splits) -> list[tuple[str, Split]]:
    others = [("test", split) for split in splits.readings]
    return [("train", splits.train), ("validation", splits.validation), *others]


def _warnings(scores: list[LayerScore], protocol: Protocol) -> tuple[str, ...]:
    name, grid = protocol.method.grid(protocol.strengths + protocol.weaker)
    edges = {min(grid), max(grid)} if len(grid) > 1 else set()
    found = [str(score.layer) for score in scores if getattr(score, name) in edges]
    if not found:
        return ()
    return (
        f"the chosen {name} lies on the edge of the grid {min(grid):g} .. {max(grid):g} "
        f"in layer {', '.join(found)}",
    )
