"""`isopix evaluate`: metrics of a fine-tuned run on the test set."""

from typing import Annotated

from isopix.core.choices import NonNegative
from isopix.core.verb import verb
from isopix.finetuning.results import EvaluationResult
from isopix.verbs.options import DeviceLike, Limit, OtherLabeled, Precision, RunLike, Seed

Masks = Annotated[
    NonNegative | None,
    "Number of random masks per test image; 0 uses unmasked images. Default: as in fine-tuning.",
]


@verb()
def evaluate(
    run: RunLike,
    *,
    data: OtherLabeled = None,
    mask_ensemble: Masks = None,
    limit: Limit = None,
    precision: Precision = None,
    seed: Seed = 0,
    device: DeviceLike = "auto",
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
