"""Folding back: one run chooses the step on validation, another learns from all images for so many steps."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.finetune.classifier import Classify
from isopix.recipes.recipe import Recipe
from isopix.runs.finetune import Beginning
from isopix.runs.load import WEIGHTS, codec_of, find, recipe_of
from isopix.runs.pretrain import Origin, Outcome, Watch, anchored, refuse_other_settings, resume, start
from isopix.storage import log
from isopix.storage.atomic import read_json
from isopix.storage.lock import exclusive_lock
from isopix.storage.run_folder import RunFolder
from isopix.train.early_stopping import CAUSES, best

LOCK = "fold-back.lock"  # of the whole; each of the two runs has its own besides

Begin = Callable[[], Beginning]  # anew each time, as training changes the weights
Watching = Callable[[Recipe], AbstractContextManager[Watch]]


class Chosen(NamedTuple):
    """The step with the best validation accuracy."""

    step: int
    accuracy: float
    run: Path


def fold_back(begin: Begin, out: Path, *, device: torch.device, watching: Watching) -> Outcome:
    """Fine-tune with validation folded back (iGPT section 3.1), in `out`, which is an ordinary run after it.

    A run in `out/choice`, which does not look at the test images, chooses the step with the best validation
    accuracy; then the run itself learns from train and validation, from the same starting weights, for so
    many steps, and is judged on the test images once. After a kill at any moment the same call goes on. What
    is returned has not finished if it was asked to stop. Raises ValueError for settings that leave nothing to
    choose, or are not those that `out` began with; RuntimeError if no step is better than none at all.
    """
    beginning = begin()
    refuse_without_choice(beginning.recipe)
    run = RunFolder(out)
    with _sole(run):
        if run.has_checkpoints:
            _refuse_other(run, beginning)
            return _resume(run, device, watching)
        run.clear_unless_saved()  # what a kill before the first checkpoint left
        outcome = _choose(run, beginning, device, watching)
        if not outcome.finished:
            return outcome
        chosen = choice_of(run)
        beginning = begin()  # the weights of the first have been trained
        recipe, origin = retrained(beginning.recipe, chosen.step), _origin(beginning, chosen)
        with watching(recipe) as watch:
            return start(recipe, out, device=device, watch=watch, origin=origin, allowed=_beside(run))


def refuse_without_choice(recipe: Recipe) -> None:
    """Raises ValueError for settings under which validation chooses nothing, or cannot be folded back."""
    if recipe.data.train_on_validation:
        raise ValueError(
            "--refit-on-validation chooses by validation images before it folds them back, and "
            "data.train_on_validation=true leaves none to choose by; give one of the two"
        )
    if recipe.data.labels_per_class is not None:
        raise ValueError(
            "--refit-on-validation learns from every label there is, and "
            f"data.labels_per_class={recipe.data.labels_per_class} "
            "from few; give one of the two"
        )
    if recipe.finetune is None or not recipe.finetune.chooses:
        raise ValueError(
            "--refit-on-validation chooses a step by validation accuracy, and patience=null or "
            "generative_weight=inf choose none"
        )


def retrained(recipe: Recipe, steps: int) -> Recipe:
    """The same settings for the run that learns from all images and has nothing left to choose."""
    classify = replace(recipe.finetune or Classify(), patience=None)
    data = replace(recipe.data, train_on_validation=True)
    return recipe.updated(
        data=data,
        finetune=classify,
        steps=steps,
        probe_every=0,
    )


def choice_of(run: RunFolder) -> Chosen:
    """What the finished run in `choice` chose. Raises RuntimeError for step 0."""
    chooser = RunFolder(run.selection)
    found = best(log.read_log(chooser.log))
    assert found is not None, "a run that chooses has been seen to have validation images"
    if found["step"] == 0:
        raise RuntimeError(
            f"no step was better on validation than none at all ({found['accuracy']:.1%} at step 0, see "
            f"{chooser.path}), so there is nothing to repeat and the test images stay unseen; likely causes: "
            f"{CAUSES}"
        )
    return Chosen(found["step"], found["accuracy"], chooser.path.resolve())


def _choose(run: RunFolder, beginning: Beginning, device: torch.device, watching: Watching) -> Outcome:
    chooser = RunFolder(run.selection)
    if chooser.has_checkpoints:
        _refuse_other(run, beginning)
        return _resume(chooser, device, watching)
    chooser.clear_unless_saved()
    recipe = beginning.recipe.updated(
        num_test_images=0,
    )
    with watching(recipe) as watch:
        return start(recipe, chooser.path, device=device, watch=watch, origin=beginning.origin)


def _resume(run: RunFolder, device: torch.device, watching: Watching) -> Outcome:
    with watching(recipe_of(find(run.path, ())[0])) as watch:
        return resume(run.path, device=device, watch=watch)


def _origin(beginning: Beginning, chosen: Chosen) -> Origin:
    """The weights that the choice started from; its palette too, which had been fitted without validation."""
    text = (
        f"validation chose step {chosen.step}, with an accuracy of {chosen.accuracy:.1%} ({chosen.run}); "
        "it is folded back: this run learns from train and validation for so many steps"
    )
    facts = {"chosen": {"step": chosen.step, "validation_accuracy": chosen.accuracy, "run": str(chosen.run)}}
    if beginning.origin:
        return beginning.origin._replace(facts=beginning.origin.facts | facts, notes=(text,))
    codec = codec_of(find(chosen.run, WEIGHTS)[0])
    recipe = beginning.recipe
    return Origin(recipe.build(codec), recipe.model.codec.provenance() | facts, (text,))


def _refuse_other(run: RunFolder, beginning: Beginning) -> None:
    """Raises ValueError unless the choice was made under these settings, from these weights."""
    chooser = RunFolder(run.selection)
    if not chooser.has_checkpoints:
        raise ValueError(f"the run in {run.path} is not one of --refit-on-validation; choose another --out")
    source = "pretrained"
    then = to_dict(recipe_of(find(chooser.path, ())[0])) | {
        source: read_json(chooser.environment).get(source)
    }
    origin = beginning.origin.facts.get(source) if beginning.origin else None
    now = to_dict(
        anchored(
            beginning.recipe.updated(
                num_test_images=0,
            )
        )
    ) | {source: origin}
    refuse_other_settings(f"the choice in {chooser.path}", then, now)


def _beside(run: RunFolder) -> set[str]:
    """What may be in the folder before the run itself begins; hidden files are what a kill may leave."""
    hidden = (path.name for path in run.path.iterdir() if path.name.startswith("."))
    return {run.selection.name, LOCK, *hidden}


@contextmanager
def _sole(run: RunFolder) -> Iterator[None]:
    """Be the one process that works in the folder. Raises ValueError if something else is there."""
    if not (run.path / LOCK).is_file():
        RunFolder.create(run.path).clear_unless_saved()
        run.path.mkdir(exist_ok=True)
    with exclusive_lock(run.path, "folder", name=LOCK):
        try:
            yield
        finally:
            if (
                not run.has_checkpoints and not run.selection.exists()
            ):  # so that the command works once mended
                (run.path / LOCK).unlink()
                with suppress(OSError):
                    run.path.rmdir()
