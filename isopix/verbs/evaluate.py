"""`isopix evaluate`, `verify` and `compare`: test metrics, published losses, and differences of runs."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import BeforeValidator

from isopix.core.choices import NonNegative
from isopix.core.text import expand_home
from isopix.core.verb import verb
from isopix.finetuning.results import EvaluationResult
from isopix.runs.results import VerificationResult
from isopix.studies.results import ComparisonResult
from isopix.verbs import options

if TYPE_CHECKING:
    from isopix.data.dataset import ImageDataset
    from isopix.runs.load import LoadedRun

Masks = Annotated[
    NonNegative | None,
    "Number of random masks per test image; 0 uses unmasked images. Default: as in fine-tuning.",
]


@verb()
def evaluate(
    run: options.RunLike,
    *,
    data: options.OtherLabeled = None,
    mask_ensemble: Masks = None,
    limit: options.Limit = None,
    precision: options.Precision = None,
    seed: options.Seed = 0,
    device: options.DeviceLike = "auto",
) -> EvaluationResult:
    """Evaluate a fine-tuned run on the test set: accuracy, loss, confusion matrix.

    With --mask-ensemble N, a masked model classifies every image under N random masks by majority vote
    (test-time augmentation). Results go to the run's `evaluations` folder.

    Example: isopix evaluate runs/classes --mask-ensemble 5
    """
    from isopix.finetuning.evaluate import evaluate_finetuned, num_masks
    from isopix.pretrained.images import evaluation_images
    from isopix.pretrained.run import default_precision, open_run

    with open_run(run, device, writes="evaluations") as (folder, model):
        loaded = model.loaded
        tuned = loaded.finetuned(None if folder is None else folder.path)
        masks = num_masks(tuned, mask_ensemble)
        images = evaluation_images(loaded, data, limit)
        chosen = precision or default_precision(run, model)
        metrics = evaluate_finetuned(tuned, loaded.classes, images, masks=masks, seed=seed, precision=chosen)
    result = EvaluationResult(
        data=images.name,
        step=loaded.step,
        mask_ensemble=masks,
        precision=chosen,
        classes=tuple(loaded.classes),
        metrics=metrics,
        measurement=loaded.evaluation_measurement(images),
    )
    return (
        result if folder is None else result.saved(result.named(folder.evaluations, loaded.step, images.name))
    )


@verb()
def verify(
    run: Annotated[options.PathLike, "Run folder or checkpoint folder."],
    *,
    data: options.OtherImages = None,
    limit: options.Limit = None,
    precision: options.FullPrecision = "fp32",
    seed: options.Seed = 0,
    device: options.DeviceLike = "auto",
) -> VerificationResult:
    """Check the file hashes of the newest checkpoint, and compare the test loss with the published one.

    OpenAI published losses on the ImageNet validation images, which are the test split here.

    Example: isopix verify runs/igpt-s --data imagenet-1k --limit 1000
    """
    from isopix.pretrained.images import evaluation_images
    from isopix.pretrained.run import load_network
    from isopix.runs.load import newest_checkpoint
    from isopix.storage import checkpoint
    from isopix.storage.run_folder import own_folder

    folder = newest_checkpoint(Path(run))
    probes = None if folder == Path(run) else own_folder(Path(run), "probes")
    files = checkpoint.verify_files(folder)
    loaded = load_network(folder, device)
    loaded.require_decoder("verify")
    images = evaluation_images(loaded, data, limit)
    if not len(images.test):
        raise ValueError(f"dataset '{images.name}' has no test images")
    result = _measured(loaded, images, precision, seed, checkpoint=str(folder), files=tuple(files))
    if probes is None:  # no run, whose report and model card read the loss
        return result
    return result.saved(result.named(probes, loaded.step, images.name))


def _measured(
    loaded: "LoadedRun", images: "ImageDataset", precision: options.FullPrecision, seed: int, **checked: Any
) -> VerificationResult:
    from isopix.codecs.palette_spec import OPENAI_FINGERPRINT
    from isopix.recipes.igpt import published_loss
    from isopix.train.evaluator import evaluate_split
    from isopix.train.tasks import PretrainTask

    metrics = evaluate_split(PretrainTask(loaded.model), images.test, seed=seed, precision=precision)
    codec = loaded.network.codec
    uniform = math.log(codec.vocab_size) if loaded.recipe.model.head.categorical else None
    baselines = {} if uniform is None else {"uniform": uniform}
    measurement = replace(loaded.measure(images, "test"), baselines=baselines)
    return VerificationResult(
        recipe=loaded.recipe.name,
        step=loaded.step,
        imported=loaded.imported.get("imported"),
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
        **checked,
    )


Groups = Annotated[
    options.PathLike,
    "Folders of runs or quoted patterns ('runs/vit-*'), each a group; run folders are one group.",
]
Baseline = Annotated[
    tuple[options.PathLike, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str | os.PathLike) else given),
    Parameter(consume_multiple=True),
    "Runs to compare with. Default: those from scratch, for the fine-tuned ones of the same group.",
]
Out = Annotated[Path | None, "JSON file to write."]


@verb()
def compare(*groups: Groups, baseline: Baseline = (), out: Out = None) -> ComparisonResult:
    """Compare fine-tuned runs with a baseline: paired differences of test accuracy.

    Each run is compared with the one of the same seed, labels and test images. The 95 % interval covers other
    seeds and draws of labels; that for new images covers other test images too.

    Example: isopix compare runs/vit-finetuned --baseline runs/vit-scratch
    """
    from isopix.studies.comparison import compare_with, groups_of

    if not groups:
        raise ValueError("groups is empty; give run folders, folders of runs or patterns")
    found = groups_of([os.fspath(each) for each in groups])
    others = [os.fspath(expand_home(each)) for each in baseline]
    result = ComparisonResult(comparisons=tuple(compare_with(each, others) for each in found))
    return result if out is None else result.saved(out)
