"""Verify a model from Python: the files of its checkpoint, and its test loss."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from isopix.api.arguments import checked
from isopix.api.progress import Progress, count_progress, shows_progress
from isopix.api.results import VerifyOutput
from isopix.codecs.palette_file import OPENAI_FINGERPRINT
from isopix.core.device import DeviceLike, Precision
from isopix.core.ranges import Count
from isopix.pretrained.run import DataLike, evaluation_images, load_network, save_record
from isopix.recipes.igpt import published_loss
from isopix.runs.load import newest_checkpoint
from isopix.storage import checkpoint
from isopix.storage.provenance import settings_hash
from isopix.storage.run_folder import RunFolder
from isopix.train.evaluator import evaluate_split
from isopix.train.tasks import PretrainTask


@checked
@shows_progress("evaluation")
def verify(
    run: str | os.PathLike[str],
    *,
    data: DataLike | None = None,
    limit: Count | None = None,
    precision: Precision = "fp32",
    seed: int = 0,
    device: DeviceLike = "auto",
    progress: Progress | None = None,
) -> VerifyOutput:
    """Check the hash of every file of the newest checkpoint, and compare its test loss with the published
    one, if there is one for this network and palette.

    `run` may also be a checkpoint folder. The result is saved in the run's `probes` folder. Raises ValueError
    for a damaged file, or for images without a test split.
    """
    folder = newest_checkpoint(Path(run))
    files = checkpoint.verify_files(folder)
    loaded = load_network(folder, device)
    loaded.require_decoder("verify")
    images = evaluation_images(loaded, data, limit)
    test = images.test
    if not len(test):
        raise ValueError(f"dataset '{images.name}' has no test images")
    task, done = PretrainTask(loaded.model), count_progress(progress, len(test))
    nats = evaluate_split(task, test, seed=seed, precision=precision, progress=done)["loss_nats"]
    codec, categorical = loaded.network.codec, loaded.recipe.model.head.categorical
    claim = published_loss(loaded.recipe, codec)
    settings = {"data": images.name, "images": len(test), "precision": precision, "seed": seed}
    published = claim and {"nats": claim.value, "source": claim.source, "step": claim.step}
    values: dict[str, Any] = {
        "recipe": loaded.recipe.name,
        "step": loaded.step,
        "imported": loaded.records.get("imported", {}).get("imported"),
        "palette": codec.fingerprint(),
        "palette_is_openai": codec.fingerprint() == OPENAI_FINGERPRINT,
        "loss_nats": nats,
        "uniform_nats": math.log(codec.vocab_size) if categorical else None,
    }
    measurement = loaded.measure(images, "test")
    if values["uniform_nats"] is not None:
        measurement = replace(measurement, baselines={"uniform": values["uniform_nats"]})
    record = {"checkpoint": str(folder), "files": files, **values, "published": published, **settings}
    record["measurement"] = measurement.to_dict()
    path = None
    if folder != Path(run):  # where the run's report and model card read the loss
        name = f"verify-{loaded.step:08d}-{images.name}-{settings_hash(settings)}.json"
        path = save_record(RunFolder.open(Path(run)).probes / name, {"kind": "verification", **record})
    about: dict[str, Any] = {"data": images.name, "images": len(test), "record": record, "path": path}
    return VerifyOutput(checkpoint=folder, files=files, published=claim, **values, **about)
