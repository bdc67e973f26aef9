"""`isopix verify`: check a model's files and compare its loss with the published one."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from isopix.core.verb import verb
from isopix.runs.results import PublishedLoss, VerificationResult
from isopix.verbs.options import DeviceLike, FullPrecision, Limit, OtherImages, PathLike, Seed

if TYPE_CHECKING:
    from isopix.data.dataset import ImageDataset
    from isopix.runs.load import LoadedRun


@verb()
def verify(
    run: Annotated[PathLike, "Run folder or checkpoint folder."],
    *,
    data: OtherImages = None,
    limit: Limit = None,
    precision: FullPrecision = "fp32",
    seed: Seed = 0,
    device: DeviceLike = "auto",
) -> VerificationResult:
    """Check the file hashes of the newest checkpoint, and compare the test loss with the published one.

    OpenAI published losses on the ImageNet validation images, which are the test split here.

    Example: isopix verify runs/igpt-s --data imagenet-1k --limit 1000
    """
    from isopix.pretrained.images import evaluation_images
    from isopix.pretrained.run import load_network
    from isopix.runs.load import newest_checkpoint
    from isopix.storage import checkpoint
    from isopix.storage.run_folder import RunFolder

    folder = newest_checkpoint(Path(run))
    files = checkpoint.verify_files(folder)
    loaded = load_network(folder, device)
    loaded.require_decoder("verify")
    images = evaluation_images(loaded, data, limit)
    if not len(images.test):
        raise ValueError(f"dataset '{images.name}' has no test images")
    result = _measured(loaded, images, precision, seed, checkpoint=str(folder), files=tuple(files))
    if folder == Path(run):  # no run, whose report and model card read the loss
        return result
    return result.saved(result.named(RunFolder.open(Path(run)).probes, loaded.step, images.name))


def _measured(
    loaded: "LoadedRun", images: "ImageDataset", precision: FullPrecision, seed: int, **checked: Any
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
    claim = published_loss(loaded.recipe, codec)
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
        published=PublishedLoss(claim.value, claim.source, claim.protocol, claim.step) if claim else None,
        measurement=measurement,
        warnings=measurement.warnings,
        **checked,
    )
