"""`isopix verify`: whether a model is whole, and its test loss beside the published one."""

import math
from pathlib import Path
from typing import Any

from isopix.cli.console import Device, Json, Limit, OtherImages, Seed, say, show_json, show_table
from isopix.cli.loading import images_for, network_of
from isopix.cli.progress import counting
from isopix.codecs.palette_file import OPENAI_FINGERPRINT
from isopix.core.device import Precision
from isopix.papers.claim import Claim, matching
from isopix.papers.igpt import TEST_LOSSES
from isopix.runs.load import Loaded, newest_checkpoint
from isopix.storage import checkpoint
from isopix.storage.atomic import write_json
from isopix.storage.provenance import record, tag
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
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Check the hash of every file of the newest checkpoint, name the palette, and print the test loss beside
    the published one.

    OpenAI published the loss of its models on ImageNet's validation images, which are the test split here.
    The numbers are kept in the `probes` folder of a run.

    Example: isopix verify runs/igpt-s --data imagenet-1k --limit 1000

    Parameters
    ----------
    run
        The run folder, or a checkpoint folder.
    precision
        Of the network's arithmetic.
    """
    folder = newest_checkpoint(run)
    files = checkpoint.check(folder)
    loaded = network_of(folder, device)
    images = images_for(loaded, data, limit)
    test = images.test
    if not len(test):
        raise ValueError(f"data set '{images.name}' has no test images")
    with counting("test loss", len(test)) as done:
        learner = PretrainTask(loaded.network)
        nats = evaluate_split(learner, test, seed=seed, precision=precision, progress=done)["loss_nats"]
    claim = matching(TEST_LOSSES, loaded.recipe, loaded.network.codec)
    settings = {"data": images.name, "images": len(test), "precision": precision, "seed": seed}
    values = {"checkpoint": str(folder), "files": files} | _values(loaded, nats, claim) | settings
    if json:
        show_json(values)
    else:
        _show(values, claim)
    if folder != run:
        name = f"verify-{loaded.step:08d}-{images.name}-{tag(settings)}.json"
        _keep(RunFolder.open(run), name, values)


def _keep(run: RunFolder, name: str, values: Values) -> None:
    """Beside the run's probes, whence its report and its model card take the loss."""
    run.probes.mkdir(exist_ok=True)
    write_json(run.probes / name, record({"kind": "verification", **values}))


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
        "palette_is_openais": fingerprint == OPENAI_FINGERPRINT,
        "loss_nats": nats,
        "uniform_nats": math.log(loaded.network.codec.levels)
        if loaded.recipe.model.head.categorical
        else None,
        "published": published,
    }


def _show(values: Values, claim: Claim | None) -> None:
    origin = f", imported from {values['imported']}" if values["imported"] else ""
    say(f"{values['recipe']}, step {_step(values)}{origin}")
    files = values["files"]
    say(f"{values['checkpoint']}: all {len(files)} files have the hash that its manifest states")
    whose = "OpenAI's" if values["palette_is_openais"] else "not OpenAI's"
    say(f"palette {values['palette'][:12]}, {whose}")
    named = f"{values['images']:,} test images of {values['data']}"
    rows = [(f"this model, {named}", values["loss_nats"])]
    if values["uniform_nats"] is not None:
        rows.append(("all codes alike", values["uniform_nats"]))
    if claim is not None:
        rows.insert(1, (f"published ({claim.source}): {claim.protocol}", claim.value))
    bits = [(what, f"{nats:.4f}", f"{nats / math.log(2):.4f}") for what, nats in rows]
    show_table("Loss of a graded code", ["", "nats", "bits"], bits)
    if claim is None:
        say("no loss is published for such a network with such a palette")
        return
    if values["step"] != claim.step:
        say(f"published after {claim.step:,} steps; this is step {_step(values)}")
    difference = values["loss_nats"] - claim.value
    say(f"difference from the published loss: {difference:+.4f} nats; it is of the images named there")


def _step(values: Values) -> str:
    """An import without a step in its name has step 0."""
    return "not known" if values["imported"] and not values["step"] else f"{values['step']:,}"
