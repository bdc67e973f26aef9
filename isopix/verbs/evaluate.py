"""`isopix evaluate` and `compare`: test metrics and losses, and differences of runs."""

import math
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from pydantic import BeforeValidator

from isopix.core.choices import NonNegative, OfPaper
from isopix.core.text import count_of, expand_home
from isopix.core.verb import verb
from isopix.finetuning.results import EvaluationResult
from isopix.runs.results import LossResult
from isopix.studies.results import ComparisonResult, RunComparison
from isopix.verbs import options

if TYPE_CHECKING:
    from isopix.core.device import Precision
    from isopix.data.dataset import ImageDataset
    from isopix.runs.load import LoadedRun

Masks = Annotated[
    OfPaper[NonNegative | None],
    "Number of random masks per test image; 0 uses unmasked images. Default: as in fine-tuning.",
]


@verb()
def evaluate(
    run: options.RunLike,
    *settings: options.DataSettings,
    data: options.OtherImages = None,
    mask_ensemble: Masks = None,
    limit: options.Limit = None,
    precision: options.Precision = None,
    seed: options.Seed = 0,
    device: options.DeviceLike = "auto",
) -> EvaluationResult | LossResult:
    """Evaluate a run on the test set: accuracy and confusion matrix or, without classes, the loss per code.

    With --mask-ensemble N, a fine-tuned masked model classifies every image under N random masks by majority
    vote (test-time augmentation). The loss is computed in fp32 by default, and printed next to the published
    value, if there is one. (OpenAI's was measured on ImageNet's validation images.) Checkpoint hashes are
    verified. Results go to the run's `evaluations` folder.

    Example: isopix evaluate runs/classes --mask-ensemble 5
    """
    from isopix.pretrained.images import evaluation_images
    from isopix.pretrained.model import PretrainedModel
    from isopix.pretrained.run import default_precision, load, open_run
    from isopix.storage.checkpoint import is_checkpoint

    path = None if isinstance(run, PretrainedModel) else Path(run)
    source = load(path, device=device) if path and is_checkpoint(path) else run
    with open_run(source, device, writes="evaluations") as (folder, model):
        loaded = model.loaded
        images = evaluation_images(loaded, data, limit, settings)
        result: EvaluationResult | LossResult
        if loaded.classes or mask_ensemble is not None:
            chosen = precision or default_precision(source, model)
            result = _classified(loaded, path, images, mask_ensemble, seed, chosen)
        else:
            result = _loss(loaded, folder.path if folder else path, images, seed, precision or "fp32")
    if folder is None:
        return result
    return result.saved(result.named(folder.evaluations, loaded.step, images.name))


def _classified(
    loaded: "LoadedRun",
    path: Path | None,
    images: "ImageDataset",
    mask_ensemble: int | None,
    seed: int,
    precision: "Precision",
) -> EvaluationResult:
    from isopix.finetuning.evaluate import evaluate_finetuned, num_masks

    tuned, images = loaded.finetuned(path), images.labeled("evaluate")
    masks = num_masks(tuned, mask_ensemble)
    metrics = evaluate_finetuned(tuned, loaded.classes, images, masks=masks, seed=seed, precision=precision)
    return EvaluationResult(
        data=images.name,
        step=loaded.step,
        mask_ensemble=masks,
        precision=precision,
        classes=tuple(loaded.classes),
        metrics=metrics,
        measurement=loaded.evaluation_measurement(images),
    )


def _loss(
    loaded: "LoadedRun", path: Path | None, images: "ImageDataset", seed: int, precision: "Precision"
) -> LossResult:
    from isopix.codecs.palette_spec import OPENAI_FINGERPRINT
    from isopix.recipes.igpt import published_loss
    from isopix.runs.load import newest_checkpoint
    from isopix.storage.checkpoint import verify_files
    from isopix.train.evaluator import evaluate_split
    from isopix.train.tasks import PretrainTask

    checkpoint = newest_checkpoint(path) if path else None
    files = verify_files(checkpoint) if checkpoint else ()
    loaded.require_decoder("evaluate")
    if not len(images.test):
        raise ValueError(f"dataset '{images.name}' has no test images")
    metrics = evaluate_split(PretrainTask(loaded.model), images.test, seed=seed, precision=precision)
    codec = loaded.network.codec
    uniform = math.log(codec.vocab_size) if loaded.recipe.model.head.categorical else None
    baselines = {} if uniform is None else {"uniform": uniform}
    measurement = replace(loaded.measure(images, "test"), baselines=baselines)
    return LossResult(
        recipe=loaded.recipe.name,
        step=loaded.step,
        imported=loaded.imported.get("imported"),
        checkpoint=str(checkpoint or ""),
        files=tuple(files),
        palette=codec.fingerprint(),
        palette_is_openai=codec.fingerprint() == OPENAI_FINGERPRINT,
        data=images.name,
        images=len(images.test),
        precision=precision,
        loss_nats=metrics["loss_nats"],
        uniform_nats=uniform,
        published=published_loss(loaded.recipe, codec),
        measurement=measurement,
        warnings=measurement.warnings,
    )


Runs = Annotated[options.RunOrModel, "Two runs; or, with --baseline, a group of fine-tuned runs."]
Baseline = Annotated[
    tuple[options.PathLike, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str | os.PathLike) else given),
    Parameter(consume_multiple=True),
    "Fine-tuned baseline runs, one for each seed and label subset of the group.",
]
Out = Annotated[Path | None, "JSON file to write."]


@verb()
def compare(
    *runs: Runs,
    baseline: Baseline = (),
    data: options.OtherImages = None,
    limit: options.Limit = None,
    out: Out = None,
    device: options.DeviceLike = "auto",
) -> ComparisonResult | RunComparison:
    """Compare two runs on the same test images, or a group of fine-tuned runs with a baseline.

    For two runs: paired differences in test loss, ridge-probe accuracy and fine-tuned accuracy, if available
    for both, on test images that neither run was trained on.

    For groups: paired differences in test accuracy between runs with the same seed, labels and test images.
    One 95% interval covers variation over seeds and label subsets; the interval for new images also covers
    variation over test images. A folder stands for all runs in it.

    Example: isopix compare runs/photos igpt.tiny-cifar10 --data cifar10 --limit 1000
    """
    from isopix.studies.comparison import compare_groups

    result: ComparisonResult | RunComparison
    if not baseline:
        if len(runs) != 2:
            raise ValueError(f"got {count_of(len(runs), 'run')} without a baseline; allowed: 2")
        result = _compare_pair(runs, data, limit, device)
    else:
        if data is not None or limit is not None:
            name = "limit" if data is None else "data"
            raise ValueError(f"{name} is for two runs without a baseline")
        paths = [Path(expand_home(each)) for each in runs if isinstance(each, str | os.PathLike)]
        if not paths or len(paths) < len(runs):
            raise ValueError("a baseline is of run folders; give one or more to compare with it")
        result = compare_groups(paths, [Path(expand_home(each)) for each in baseline])
    return result if out is None else result.saved(out)


def _compare_pair(
    runs: tuple[options.RunLike, ...],
    data: options.PathLike | None,
    limit: int | None,
    device: options.DeviceLike,
) -> RunComparison:
    from isopix.model.network import evaluation_mode
    from isopix.pretrained.images import evaluation_images
    from isopix.pretrained.model import PretrainedModel
    from isopix.pretrained.run import default_precision, load
    from isopix.storage.run_folder import runs_in
    from isopix.studies.pairs import Side, compare_runs

    sides = []
    with ExitStack() as stack:
        for number, run in enumerate(runs, start=1):
            if not isinstance(run, PretrainedModel) and runs_in(Path(run)):
                raise ValueError(f"{run} is a folder of runs; to compare groups, give others with --baseline")
            model = run if isinstance(run, PretrainedModel) else load(run, device=device)
            name = f"model {number}" if model is run else str(run)
            stack.enter_context(evaluation_mode(model))
            images = evaluation_images(model.loaded, data, limit)
            sides.append(Side(name, model, images, default_precision(run, model)))
        return compare_runs(*sides)
