"""`isopix verify`: check a model's files and compare its loss with the published one."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isopix.api import verification
from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherImages,
    Plugins,
    Seed,
    load_plugins,
    note,
    say,
    say_wrapped,
    show_json,
    show_table,
)
from isopix.core.choices import Precision
from isopix.core.measurement import Measurement
from isopix.recipes.published import PublishedLoss

Values = Mapping[str, Any]


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
    found = verification.verify(run, data=data, limit=limit, precision=precision, seed=seed, device=device)
    if json:
        show_json(found.record)
    else:
        _print_values(found.record, found.published)


def _print_values(values: Values, claim: PublishedLoss | None) -> None:
    origin = f", imported from {values['imported']}" if values["imported"] else ""
    say_wrapped(f"{values['recipe']}, step {_step(values)}{origin}")
    files = values["files"]
    say_wrapped(f"{values['checkpoint']}: all {len(files)} files match the hashes of the manifest")
    owner = "OpenAI's" if values["palette_is_openai"] else "custom"
    say(f"palette: {owner}, fingerprint {values['palette'][:12]}")
    measurement = Measurement.from_dict(values["measurement"])
    rows = [(f"this model, {measurement.line}", values["loss_nats"])]
    if values["uniform_nats"] is not None:
        rows.append(("uniform prediction", values["uniform_nats"]))
    if claim is not None:
        rows.insert(1, (f"published ({claim.source}): {claim.protocol}", claim.value))
    bits = [(name, f"{nats:.4f}", f"{nats / math.log(2):.4f}") for name, nats in rows]
    show_table("Loss per predicted code", ["model", "nats", "bits"], bits)
    for text in measurement.warnings:
        note(text)
    if claim is None:
        say("no published loss for this network and palette")
        return
    if values["step"] != claim.step:
        say(f"published loss: step {claim.step:,}; this model: step {_step(values)}")
    difference = values["loss_nats"] - claim.value
    say_wrapped(f"difference from the published loss: {difference:+.4f} nats (note the images of each)")


def _step(values: Values) -> str:
    """Return the step; an import without a step in its name has step 0, meaning unknown."""
    return "unknown" if values["imported"] and not values["step"] else f"{values['step']:,}"
