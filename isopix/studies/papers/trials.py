"""Trials of a protocol: each trains or measures a network by verbs."""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from isopix.core.config import to_dict
from isopix.core.overrides import override, parse
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.data.splits import NO_LABEL
from isopix.finetuning.results import EvaluationResult
from isopix.probing.results import LowDataResult, ProbeResult
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import ModelCost
from isopix.runs.start import finetune_recipe
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.stopping import best_evaluation, has_val_accuracy

NO_TEST = "num_test_images=0"  # in runs that something is selected from

RunVerb = Callable[..., Path]
"""Runs a verb by its command, `run_verb("probe", run, data="digits")`, and returns the path of its result."""

Outcome = tuple[Path, dict[str, Any] | None]
"""The file of a run folder with the numbers of a trial, and what validation selected, if anything."""


@dataclass(frozen=True)
class ProtocolTrial(abc.ABC):
    """A part of a protocol; its runs in the folder `runs` have its name."""

    name: str

    @property
    def needs(self) -> "list[ProtocolTrial]":
        """The trials that come before this one: that of its network."""
        return [each for each in vars(self).values() if isinstance(each, ProtocolTrial)]

    @abc.abstractmethod
    def run(self, run_verb: RunVerb, runs: Path) -> Outcome:
        """Run the trial, or continue it after an interruption."""

    @abc.abstractmethod
    def read(self, record: Path) -> Any:
        """Return the result in the file of an outcome, or the log of a network."""

    @abc.abstractmethod
    def trainings(self) -> Sequence[Recipe]:
        """Return what is trained."""

    def training_flops(self) -> int:
        """Return the FLOPs of all trainings; probes and evaluations are not counted."""
        recipes = self.trainings()
        return sum(
            network_cost(each).training_flops * each.train.steps * each.train.batch_size for each in recipes
        )


@dataclass(frozen=True)
class Pretrain(ProtocolTrial):
    """A network: pre-trained by a recipe, the run `given`, or, `from_scratch`, trained in fine-tuning."""

    recipe: Recipe
    given: Path | None = None
    from_scratch: bool = False

    def folder(self, runs: Path) -> Path:
        return self.given or runs / self.name

    def trainings(self) -> Sequence[Recipe]:
        return () if self.given or self.from_scratch else (self.recipe,)

    def run(self, run_verb: RunVerb, runs: Path) -> Outcome:
        if self.from_scratch:
            return runs, None
        if self.given is None:
            run_verb("pretrain", self.recipe, out=self.folder(runs))
        return RunFolder(self.folder(runs)).recipe, None

    def read(self, record: Path) -> list[dict[str, Any]]:
        log = RunFolder(record.parent).log
        return read_log(log) if log.is_file() else []

    def finetune(self, run_verb: RunVerb, runs: Path, out: Path, settings: Sequence[str]) -> None:
        if self.from_scratch:
            run_verb("pretrain", self.finetune_recipe(settings), out=out)
        else:
            run_verb("finetune", self.folder(runs), *settings, out=out)

    def finetune_recipe(self, settings: Sequence[str]) -> Recipe:
        changes = registry.full_names(parse(settings))
        source = changes.get("data.source", self.recipe.data.source)
        return override(finetune_recipe(self.recipe, source, from_scratch=self.from_scratch), changes)


@dataclass(frozen=True)
class Probe(ProtocolTrial):
    """A probe of a network, with its options and settings."""

    network: Pretrain
    data: str | None  # None: those of pre-training
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()

    def trainings(self) -> Sequence[Recipe]:
        if not (steps := self.options.get("finetune_steps", 0)):
            return ()
        source = self.data or self.network.recipe.data.source
        recipe = finetune_recipe(self.network.recipe, source, from_scratch=False).updated(steps=steps)
        return [recipe] * (len(self.options["labels"]) * self.options["subsets"])

    def check_labels(self, limit: int | None) -> None:
        """Raise ValueError for more labels of each class than there are with this limit."""
        own, wanted = self.network.recipe.data, self.options.get("labels", ())
        limit, source = limit or own.limit, self.data or own.source
        if limit is None or not wanted:
            return
        labels = load_dataset(replace(own, source=source, limit=limit)).labeled("probe").train.labels
        assert labels is not None
        fewest = int(labels[labels != NO_LABEL].bincount().min())
        if wrong := [str(count) for count in wanted if count > fewest]:
            few = f"with limit {limit} a class has only {fewest} training images"
            raise ValueError(f"{self.name} needs {' and '.join(wrong)} labels of each class; {few}")

    def run(self, run_verb: RunVerb, runs: Path) -> Outcome:
        run = self.network.folder(runs)
        return run_verb("probe", run, *self.settings, data=self.data, **self.options), None

    def read(self, record: Path) -> ProbeResult | LowDataResult:
        return LowDataResult.read(record) if "labels" in self.options else ProbeResult.read(record)


@dataclass(frozen=True)
class FineTune(ProtocolTrial):
    """Fine-tuning once for each entry of `grid`; the one with the best validation accuracy is tested.

    With `sequential` the search ends after the first fall of the accuracy. With `refit` the selected settings
    are trained anew on train and validation together, for the selected number of steps (iGPT section 3.1).
    """

    network: Pretrain
    settings: tuple[str, ...]
    grid: tuple[tuple[str, ...], ...]
    sequential: bool = False
    refit: bool = False
    mask_ensemble: int | None = None

    def trainings(self) -> Sequence[Recipe]:
        recipes = [self.network.finetune_recipe((*self.settings, *words)) for words in self.grid]
        return [*recipes, *recipes[:1]] if self.refit else recipes

    def run(self, run_verb: RunVerb, runs: Path) -> Outcome:
        tried = list[TriedRun]()
        for words in self.grid:
            tried.append(self._try(run_verb, runs, words))
            accuracies = [each.validation_accuracy for each in tried if each.validation_accuracy is not None]
            if self.sequential and accuracies[1:] and accuracies[-1] < accuracies[-2]:
                break
        if not accuracies:
            raise RuntimeError(f"every fine-tuning of {self.name} failed: {tried[0].problem}")
        best = next(each for each in tried if each.validation_accuracy == max(accuracies))
        tested = self._refit(run_verb, runs, best) if self.refit else runs / best.run
        record = run_verb("evaluate", tested, mask_ensemble=self.mask_ensemble)
        chosen = {"selected": list(best.settings), "step": best.step}
        return record, {**chosen, "tried": list(map(to_dict, tried))}

    def read(self, record: Path) -> EvaluationResult:
        return EvaluationResult.read(record)

    def _try(self, run_verb: RunVerb, runs: Path, words: tuple[str, ...]) -> "TriedRun":
        run = Path(self.name, "-".join(words).replace("/", "-"))
        try:
            self.network.finetune(run_verb, runs, runs / run, (*self.settings, *words, NO_TEST))
        except RuntimeError as error:  # it diverged; others may not
            return TriedRun(words, run, problem=str(error).partition("\n")[0])
        return TriedRun(words, run, *kept_weights(runs / run))

    def _refit(self, run_verb: RunVerb, runs: Path, best: "TriedRun") -> Path:
        if best.step == 0:
            raise RuntimeError(f"no step of {self.name} has a better validation accuracy than step 0")
        final = ("data.train_on_validation=true", "finetune.patience=null", f"train.steps={best.step}")
        out = runs / self.name / "refit"
        self.network.finetune(run_verb, runs, out, (*self.settings, *best.settings, *final, NO_TEST))
        return out


@dataclass(frozen=True)
class TriedRun:
    """A run of a grid, the step whose weights are kept, their validation accuracy, and why it has none."""

    settings: tuple[str, ...]
    run: Path  # in the folder of all runs
    step: int = 0
    validation_accuracy: float | None = None
    problem: str = ""


def kept_weights(run: Path) -> tuple[int, float]:
    """Return the step that a fine-tuned run keeps, and its validation accuracy."""
    records = [each for each in read_log(RunFolder(run).log) if has_val_accuracy(each)]
    kept = best_evaluation(records) if RunFolder(run).best.is_dir() else records[-1]
    assert kept is not None, "fine-tuning evaluates at its first step"
    return kept["step"], kept["accuracy"]


def network_cost(recipe: Recipe) -> ModelCost:
    """Return the cost of a recipe, computed once for all recipes of the same network and image size."""
    data = DataConfig(rows=recipe.data.rows, cols=recipe.data.cols)
    return _cached_cost(Recipe(name="", model=recipe.model, objective=recipe.objective, data=data))


_cached_cost = cache(recipe_cost)
