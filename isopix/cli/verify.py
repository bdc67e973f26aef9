"""`isopix verify`: check a model's files and compare its loss with the published one."""

import math
from pathlib import Path
from typing import Any

from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherImages,
    Plugins,
    Seed,
    load_plugins,
    say,
    show_json,
    show_table,
)
from isopix.cli.loading import evaluation_images, load_network
from isopix.cli.progress import progress_bar
from isopix.codecs.palette_file import OPENAI_FINGERPRINT
from isopix.core.device import Precision
from isopix.papers.claim import Claim, find_claim
from isopix.papers.igpt import TEST_LOSSES
from isopix.runs.load import Loaded, newest
from isopix.storage import checkpoint
from isopix.storage.atomic import write_json
from isopix.storage.provenance import settings_hash, with_provenance
from isopix.storage.run_folder import RunFolder
from isopix.train.evaluator import evaluate_split
from isopix.train.tasks import PretrainTask

Values = dict[str, Any]


def verify(
    run: Path,
    *,
    data: OtherImages = None,
    limit: Limit = None,
    precision: Precision = "fp32",
    seed: Seed = 0,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Check the file hashes of the newest checkpoint, and compare the test loss with the published one.

    OpenAI published the losses of its models on the ImageNet validation images, which are the test split
    here. Results go to the run's `probes` folder.

    Example: isopix verify runs/igpt-s --data imagenet-1k --limit 1000

    Parameters
    ----------
    run
        Run folder or checkpoint folder.
    precision
        Precision of the forward pass.
    """
    load_plugins(plugin)
    folder = newest(run)
    files = checkpoint.verify_files(folder)
    loaded = load_network(folder, device)
    images = evaluation_images(loaded, data, limit)
    test = images.test
    if not len(test):
        raise ValueError(f"data set '{images.name}' has no test images")
    with progress_bar("test loss", len(test)) as done:
        task = PretrainTask(loaded.model)
        nats = evaluate_split(task, test, seed=seed, precision=precision, progress=done)["loss_nats"]
    claim = find_claim(TEST_LOSSES, loaded.recipe, loaded.network.codec)
    settings = {"data": images.name, "images": len(test), "precision": precision, "seed": seed}
    values = {"checkpoint": str(folder), "files": files} | _values(loaded, nats, claim) | settings
    if json:
        show_json(values)
    else:
        _print_values(values, claim)
    if folder != run:
        name = f"verify-{loaded.step:08d}-{images.name}-{settings_hash(settings)}.json"
        _save(RunFolder.open(run), name, values)


def _save(run: RunFolder, name: str, values: Values) -> None:
    """Save the values with the run's probes, where its report and model card read the loss."""
    run.probes.mkdir(exist_ok=True)
    write_json(run.probes / name, with_provenance({"kind": "verification", **values}))


def _values(loaded: Loaded, nats: float, claim: Claim | None) -> Values:
    fingerprint = loaded.network.codec.fingerprint()
    published = None
    if claim is not None:
        published = {"nats": claim.value, "source": claim.source, "step": claim.step}
    return {
        "recipe": loaded.recipe.name,
        "step": loaded.step,
        "imported": loaded.records.get("imported", {}).get("imported"),
        "palette": fingerprint,
        "palette_is_openai": fingerprint == OPENAI_FINGERPRINT,
        "loss_nats": nats,
        "uniform_nats": math.log(loaded.network.codec.vocab_size)
        if loaded.recipe.model.head.categorical
        else None,
        "published": published,
    }


def _print_values(values: Values, claim: Claim | None) -> None:
    origin = f", imported from {values['imported']}" if values["imported"] else ""
    say(f"{values['recipe']}, step {_step(values)}{origin}")
    files = values["files"]
    say(f"{values['checkpoint']}: all {len(files)} files match the hashes of the manifest")
    owner = "OpenAI's" if values["palette_is_openai"] else "not OpenAI's"
    say(f"palette {values['palette'][:12]}, {owner}")
    images = f"{values['images']:,} test images of {values['data']}"
    rows = [(f"this model, {images}", values["loss_nats"])]
    if values["uniform_nats"] is not None:
        rows.append(("uniform prediction", values["uniform_nats"]))
    if claim is not None:
        rows.insert(1, (f"published ({claim.source}): {claim.protocol}", claim.value))
    bits = [(name, f"{nats:.4f}", f"{nats / math.log(2):.4f}") for name, nats in rows]
    show_table("Loss per predicted code", ["model", "nats", "bits"], bits)
    if claim is None:
        say("no published loss for this network and palette")
        return
    if values["step"] != claim.step:
        say(f"published loss: step {claim.step:,}; this model: step {_step(values)}")
    difference = values["loss_nats"] - claim.value
    say(f"difference from the published loss: {difference:+.4f} nats (note the images of each)")


def _step(values: Values) -> str:
    """Return the step; an import without a step in its name has step 0, meaning unknown."""
    return "unknown" if values["imported"] and not values["step"] else f"{values['step']:,}"
