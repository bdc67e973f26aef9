"""Trials of a protocol: each trains or measures with one or several of the package's commands."""

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from isopix.core.overrides import override, parse
from isopix.data.dataset import DataConfig
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import ModelCost
from isopix.runs.finetune import finetune_recipe
from isopix.storage.atomic import read_json
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.stopping import best_evaluation, has_val_accuracy

NO_TEST = "num_test_images=0"  # in runs that something is selected from


@runtime_checkable
class Commands(Protocol):
    """The commands that trials consist of; each returns the path of what it wrote."""

    def train(self, recipe: Recipe, out: Path) -> Path:
        """Train a recipe in `out`, or resume the run that is there."""

    def finetune(self, run: Path, out: Path, settings: Sequence[str]) -> Path:
        """Fine-tune a run in `out`, or resume the run that is there."""

    def evaluate(self, run: Path, mask_ensemble: int | None) -> Path:
        """Evaluate a fine-tuned run on all test images."""

    def probe(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        """Probe every layer; `options` are further arguments of `isopix.probe`."""

    def low_data(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        """Measure the error with few labels; `options` are further arguments of `isopix.low_data`."""


class Outcome(NamedTuple):
    """The file of a run folder that has the numbers of a trial, and what was selected on validation images,
    if anything.
    """

    record: Path
    selection: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ProtocolTrial(abc.ABC):
    """A part of a protocol with a name of its own, which its runs in the folder `runs` have too."""

    name: str

    @property
    def needs(self) -> "tuple[ProtocolTrial, ...]":
        """The trials that come before this one."""
        return ()

    @abc.abstractmethod
    def run(self, commands: Commands, runs: Path) -> Outcome:
        """Run the trial, or continue it after an interruption."""

    def read(self, record: Path) -> Mapping[str, Any]:
        """Return the numbers of a finished trial from the record of its outcome."""
        return read_json(record)

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
    """A network: pre-trained by a recipe, the existing run `given`, or, `from_scratch`, none of both, which
    fine-tuning trains alone. Its numbers are those of its log.
    """

    recipe: Recipe
    given: Path | None = None
    from_scratch: bool = False

    def folder(self, runs: Path) -> Path:
        """Return the run folder."""
        return self.given or runs / self.name

    def trainings(self) -> Sequence[Recipe]:
        return () if self.given or self.from_scratch else (self.recipe,)

    def run(self, commands: Commands, runs: Path) -> Outcome:
        if self.from_scratch:
            return Outcome(runs)
        folder = self.folder(runs)
        if self.given is None:
            commands.train(self.recipe, folder)
        return Outcome(RunFolder(folder).recipe)

    def read(self, record: Path) -> Mapping[str, Any]:
        log = RunFolder(record.parent).log
        return {"log": read_log(log) if log.is_file() else []}

    def finetune(self, commands: Commands, runs: Path, out: Path, settings: Sequence[str]) -> Path:
        """Fine-tune the network in `out`."""
        if self.from_scratch:
            return commands.train(self.finetune_recipe(settings), out)
        return commands.finetune(self.folder(runs), out, settings)

    def finetune_recipe(self, settings: Sequence[str]) -> Recipe:
        """Return the recipe of `finetune`."""
        changes = registry.full_names(parse(settings))
        source = changes.get("data.source", self.recipe.data.source)
        return override(finetune_recipe(self.recipe, source, from_scratch=self.from_scratch), changes)


@dataclass(frozen=True)
class Probe(ProtocolTrial):
    """A probe of every layer; `options` as in `isopix.probe`."""

    network: Pretrain
    data: str | None  # None: those of pre-training
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs(self) -> tuple[ProtocolTrial, ...]:
        return (self.network,)

    def trainings(self) -> Sequence[Recipe]:
        return ()

    def run(self, commands: Commands, runs: Path) -> Outcome:
        return Outcome(commands.probe(self.network.folder(runs), self.data, self.options))


@dataclass(frozen=True)
class LowData(Probe):
    """Probes with few labels; `options` as in `isopix.low_data`."""

    def trainings(self) -> Sequence[Recipe]:
        steps, options = self.options.get("finetune_steps", 0), self.options
        source = self.data or self.network.recipe.data.source
        recipe = finetune_recipe(self.network.recipe, source, from_scratch=False).updated(steps=max(1, steps))
        return [recipe] * (len(options["labels"]) * options["subsets"] if steps else 0)

    def run(self, commands: Commands, runs: Path) -> Outcome:
        return Outcome(commands.low_data(self.network.folder(runs), self.data, self.options))


@dataclass(frozen=True)
class FineTune(ProtocolTrial):
    """Fine-tuning once for each entry of `grid`; the one with the best validation accuracy is tested.

    `settings` are shared by all. With `sequential` the search ends after the first fall of the accuracy. With
    `refit` the selected settings are trained anew on train and validation together, for the selected number
    of steps, and that network is tested (iGPT section 3.1). `mask_ensemble` as in `isopix.evaluate`.
    """

    network: Pretrain
    settings: tuple[str, ...]
    grid: tuple[tuple[str, ...], ...]
    sequential: bool = False
    refit: bool = False
    mask_ensemble: int | None = None

    @property
    def needs(self) -> tuple[ProtocolTrial, ...]:
        return (self.network,)

    def trainings(self) -> Sequence[Recipe]:
        recipes = [self.network.finetune_recipe((*self.settings, *words)) for words in self.grid]
        return [*recipes, *recipes[:1]] if self.refit else recipes

    def run(self, commands: Commands, runs: Path) -> Outcome:
        found: dict[tuple[str, ...], ValidationScore] = {}
        for words in self.grid:
            path = runs / self.name / "-".join(words).replace("/", "-")
            settings = (*self.settings, *words, NO_TEST)
            try:
                found[words] = validation_score(self.network.finetune(commands, runs, path, settings))
            except RuntimeError as error:  # it diverged; others may not
                found[words] = ValidationScore(path, 0, -math.inf, str(error).partition("\n")[0])
            if self.sequential and _has_fallen([each.accuracy for each in found.values()]):
                break
        best = max(found, key=lambda words: found[words].accuracy)
        if found[best].problem:
            raise RuntimeError(f"every fine-tuning of {self.name} failed: {found[best].problem}")
        tested = found[best].run
        if self.refit:
            tested = self._refit(commands, runs, best, found[best].step)
        tried = [
            {
                "settings": list(words),
                "run": each.run.name,
                "validation_accuracy": None if each.problem else each.accuracy,
                "problem": each.problem,
            }
            for words, each in found.items()
        ]
        selection = {"selected": list(best), "step": found[best].step, "tried": tried}
        return Outcome(commands.evaluate(tested, self.mask_ensemble), selection)

    def _refit(self, commands: Commands, runs: Path, words: tuple[str, ...], steps: int) -> Path:
        if steps == 0:
            raise RuntimeError(f"no step of {self.name} has a better validation accuracy than step 0")
        final = ("data.train_on_validation=true", "finetune.patience=null", f"train.steps={steps}", NO_TEST)
        out = runs / self.name / "refit"
        return self.network.finetune(commands, runs, out, (*self.settings, *words, *final))


class ValidationScore(NamedTuple):
    """A run, the step whose weights are kept, their validation accuracy, and why there is none."""

    run: Path
    step: int
    accuracy: float
    problem: str = ""


def validation_score(run: Path) -> ValidationScore:
    """Return the validation accuracy of the weights that a fine-tuned run keeps; its test accuracy, if it has
    one, is not looked at.
    """
    records = [each for each in read_log(RunFolder(run).log) if has_val_accuracy(each)]
    kept = best_evaluation(records) if RunFolder(run).best.is_dir() else records[-1]
    assert kept is not None, "fine-tuning evaluates at its first step"
    return ValidationScore(run, kept["step"], kept["accuracy"])


def _has_fallen(accuracies: Sequence[float]) -> bool:
    """Whether the last of the runs that did not fail is worse than the one before."""
    finite = [each for each in accuracies if math.isfinite(each)]
    return len(finite) > 1 and finite[-1] < finite[-2]


def network_cost(recipe: Recipe) -> ModelCost:
    """Return the cost of a recipe, computed once for all recipes of the same network and image size."""
    data = DataConfig(rows=recipe.data.rows, cols=recipe.data.cols)
    return _cached_cost(Recipe(name="", model=recipe.model, objective=recipe.objective, data=data))


@cache
def _cached_cost(recipe: Recipe) -> ModelCost:
    return recipe_cost(recipe)
