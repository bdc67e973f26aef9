"""Few labels: a run's features, and the run fine-tuned, judged by what a few labelled images teach them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from isopix.core.device import Precision
from isopix.core.random import generator
from isopix.core.types import Labels
from isopix.data.images import ImageSet
from isopix.data.splits import Index, balanced
from isopix.runs.finetune import begin
from isopix.runs.load import Loaded
from isopix.runs.reading import Pixels, Source, States, splits
from isopix.runs.run import Watch, resume, start
from isopix.train import log
from isopix.train.disk import read_json
from isopix.train.run_folder import RunFolder
from isopix.transfer.evidence import Protocol
from isopix.transfer.lowdata import FewLabels, few_labels

Progress = Callable[[float], None]  # the share of all images that have been read
Draws = Mapping[int, Sequence[Index]]  # by the number of labels of each class


class Question(NamedTuple):
    """How many labels of each class, and how many random subsets of each number."""

    labels: tuple[int, ...]
    subsets: int

    def draws(self, given: Labels, seed: int) -> Draws:
        """Balanced subsets of these training labels, the ones that `Data.labels` and `Data.subset` draw.

        Raises ValueError if a number is impossible or a class has too few.
        """
        if self.subsets < 1 or not self.labels or min(self.labels) < 1:
            raise ValueError(
                f"labels {list(self.labels)} and subsets {self.subsets}; allowed: numbers from 1 on"
            )
        return {
            count: [balanced(given, count, generator(seed, "subset", each)) for each in range(self.subsets)]
            for count in self.labels
        }


def by_features(
    loaded: Loaded,
    data: ImageSet,
    question: Question,
    *,
    precision: Precision,
    protocol: Protocol,
    progress: Progress = lambda share: None,
) -> dict[str, list[FewLabels]]:
    """Logistic regression on the features of the run, of the same network untrained, and on raw pixels.

    Only the images that a subset holds are read. Raises ValueError where `data` has no labels, no images to
    choose by, or too few of a class.
    """
    data.require_labels("lowdata")
    data.require_validation("a layer")
    assert data.train.labels is not None
    draws = question.draws(data.train.labels, loaded.recipe.seed)
    used = torch.tensor(sorted({int(n) for each in draws.values() for index in each for n in index}))
    few = replace(data, train=data.train.take(used))
    places = {count: [torch.searchsorted(used, index) for index in drawn] for count, drawn in draws.items()}
    network, recipe = loaded.network, loaded.recipe
    untrained = recipe.build(network.codec).to(network.device).eval()
    sources: dict[str, Source] = {
        "trained": States(network, recipe, protocol, precision),
        "untrained": States(untrained, recipe, protocol, precision),
        "raw pixels": Pixels(),
    }
    found = {}
    for turn, (whose, source) in enumerate(sources.items()):
        features = splits(source, few, _Share(few, turn, len(sources), progress))
        found[whose] = [
            few_labels(features, drawn, count, protocol=protocol, device=network.device)
            for count, drawn in places.items()
        ]
    return found


class _Share:
    """Turns how many images of a set have been read, the `turn`th time of `turns`, into a share of all."""

    def __init__(self, data: ImageSet, turn: int, turns: int, progress: Progress):
        self.turn, self.turns, self.progress = turn, turns, progress
        self.total = len(data.train) + len(data.validation) + len(data.test)

    def __call__(self, done: int) -> None:
        self.progress((self.turn + done / self.total) / self.turns)


class Tuning(NamedTuple):
    """How to fine-tune: the run to start from, where the run folders go, settings, and the device."""

    source: Path
    out: Path
    settings: tuple[str, ...]
    device: torch.device


def by_finetuning(tuning: Tuning, question: Question, watch: Watch) -> list[FewLabels]:
    """The run fine-tuned on each subset, in run folders `labels-4-subset-0` and so on.

    Runs that are there are read, interrupted ones go on. Raises KeyboardInterrupt when asked to stop, and
    what `start` raises.
    """
    results = []
    for count in question.labels:
        folders = [tuning.out / f"labels-{count}-subset-{each}" for each in range(question.subsets)]
        errors = [_finetuned(tuning, folder, (count, each), watch) for each, folder in enumerate(folders)]
        images = read_json(RunFolder(folders[0]).environment)["images"]["train"]
        results.append(FewLabels(count, images, None, tuple(errors)))
    return results


def _finetuned(tuning: Tuning, folder: Path, subset: tuple[int, int], watch: Watch) -> float:
    """The test error of one fine-tuning run."""
    run = RunFolder(folder)
    if run.saved:
        outcome = resume(folder, device=tuning.device, watch=watch)
    else:
        run.clear_unless_saved()  # what a kill before the first checkpoint left
        words = [*tuning.settings, f"data.labels={subset[0]}", f"data.subset={subset[1]}"]
        recipe, origin = begin(str(tuning.source), assignments=words)
        outcome = start(recipe, folder, device=tuning.device, watch=watch, origin=origin)
    if not outcome.finished:
        raise KeyboardInterrupt
    tested = [each for each in log.read(run.log) if each.get("split") == "test"]
    return 1 - float(tested[-1]["accuracy"])
