"""Few labels: a run's features, and the run fine-tuned, judged by what a few labelled images teach them."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.core.device import Precision
from isopix.core.overrides import parse
from isopix.core.random import generator
from isopix.core.types import Labels
from isopix.data.dataset import Data, ImageSet
from isopix.data.sources.base import digest_of
from isopix.data.splits import Index, balanced
from isopix.probe.low_data import FewLabels, few_labels
from isopix.probe.results import Protocol
from isopix.recipes.recipe import Recipe
from isopix.runs.feature_extraction import Pixels, Source, States, splits
from isopix.runs.finetune import prepare_finetune
from isopix.runs.load import Loaded
from isopix.runs.pretrain import (
    BEST_STEP,
    InitialWeights,
    pretrain,
    require_evaluations,
    with_absolute_paths,
)
from isopix.runs.resume import resume
from isopix.runs.training import RunObserver
from isopix.storage import log
from isopix.storage.atomic import read_json
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

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
        if len(set(self.labels)) < len(self.labels):
            raise ValueError(f"labels {list(self.labels)}; allowed: each number once")
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
    draws = question.draws(data.train.labels, loaded.recipe.train.seed)
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
    """How to fine-tune: settings and weights to start from, where the run folders go, and the device."""

    recipe: Recipe
    initial: InitialWeights
    out: Path
    device: torch.device


def tuning(
    source: Path, settings: Sequence[str], *, images: Data, tested: int, out: Path, device: torch.device
) -> Tuning:
    """Fine-tuning of a run on subsets of the images that are probed, judged on all `tested` test images
    unless a setting says otherwise.

    Raises ValueError for wrong settings, and for those that would change the images.
    """
    for path in parse(settings):
        if path in ("seed", "train.seed") or (
            path.partition(".")[0] == "data" and not path.startswith("data.augment")
        ):
            raise ValueError(
                f"{path} cannot be set here: fine-tuning is judged on the images and subsets that are "
                "probed; give --data or --limit"
            )
    recipe, initial = prepare_finetune(str(source), options={"num_test_images": tested}, assignments=settings)
    assert initial is not None, "the source is a run"
    if recipe.finetune is not None and recipe.finetune.early_stops:
        require_evaluations(recipe, BEST_STEP)
    return Tuning(replace(recipe, data=replace(images, augment=recipe.data.augment)), initial, out, device)


def by_finetuning(how: Tuning, question: Question, watch: RunObserver) -> list[FewLabels]:
    """The run fine-tuned on each subset, in run folders `labels-4-subset-0-` and a hash of all settings.

    Runs that are there are read, interrupted ones go on. Raises KeyboardInterrupt when asked to stop, and
    what `start` raises.
    """
    results = []
    for count in question.labels:
        folders = [_finetuned(how, count, each, watch) for each in range(question.subsets)]
        tests = [_test(folder) for folder in folders]
        images = read_json(RunFolder(folders[0]).environment)["images"]["train"]
        errors = tuple(1 - float(test["accuracy"]) for test in tests)
        results.append(FewLabels(count, images, tests[0]["images"], None, errors))
    return results


def _finetuned(how: Tuning, count: int, subset: int, watch: RunObserver) -> Path:
    """The folder of one fine-tuning run that is done."""
    recipe = replace(how.recipe, data=replace(how.recipe.data, labels=count, subset=subset))
    folder = how.out / f"labels-{count}-subset-{subset}-{_mark(recipe, how.initial)}"
    run = RunFolder(folder)
    if run.saved:
        outcome = resume(folder, device=how.device, observer=watch)
    else:
        run.clear_unless_saved()  # what a kill before the first checkpoint left
        fresh = how.initial._replace(network=deepcopy(how.initial.network))  # training changes it
        outcome = pretrain(recipe, folder, device=how.device, observer=watch, initial=fresh)
    if not outcome.finished:
        raise KeyboardInterrupt
    return folder


def _mark(recipe: Recipe, initial: InitialWeights) -> str:
    """Six letters of a hash: a run is found again by the same settings from the same step alone."""
    told = [to_dict(with_absolute_paths(recipe)), initial.provenance["pretrained"]["step"]]
    return digest_of(json.dumps(told, sort_keys=True).encode())[:6]


def _test(folder: Path) -> Record:
    """The line of the log that tells of the test images."""
    return [each for each in log.read(RunFolder(folder).log) if each.get("split") == "test"][-1]
