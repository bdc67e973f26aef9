"""`isopix probe`: how well a linear classifier tells classes by each layer, beside the controls."""

import hashlib
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import Device, Json, Limit, Seed, say, show_json, show_table
from isopix.cli.drawing import images_for, network_of, record, tag
from isopix.cli.progress import counting
from isopix.core.device import Precision
from isopix.data.images import ImageSet
from isopix.model.backbone import Stream
from isopix.model.pool import Pool
from isopix.runs.probing import evidence
from isopix.train.disk import write_json
from isopix.train.run_folder import RunFolder
from isopix.transfer.evidence import Evidence, LayerScore, Protocol, Reading

Which = Annotated[Stream, Parameter(help="n: states after the next norm, as the paper; h: as they are")]
Pooling = Annotated[Pool, Parameter(help="how the positions of an image become one vector")]
How = Annotated[
    Reading, Parameter(help="huggingface: without the start symbol, as their feature path; to compare")
]


def probe(
    run: Path,
    *,
    data: str | None = None,
    limit: Limit = None,
    stream: Which = "n",
    pool: Pooling = "mean",
    reading: How = "paper",
    refit: bool = False,
    precision: Precision | None = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Linear probe of every layer: logistic regression by L-BFGS on pooled features, with controls.

    Strength and layer are chosen on the validation split and reported on the test split. The numbers are kept
    in the run's `probes` folder.

    Example: isopix probe runs/photos --limit 5000 --json

    Parameters
    ----------
    run
        The run folder.
    data
        Other labelled images than the run's own: a folder, an .npz file, Parquet, or a name.
    refit
        Judge a fit to training and validation images together, at the strength that validation chose.
    precision
        Of the network's arithmetic; the run's own without it.
    """
    folder, loaded = RunFolder.open(run), network_of(run, device)
    images = images_for(loaded, data, limit)
    with counting("features", 2 * _count(images)) as done:
        found = evidence(
            loaded,
            images,
            precision=precision or loaded.recipe.precision,
            protocol=Protocol(stream=stream, pool=pool, reading=reading, refit=refit, seed=seed),
            progress=lambda whose, count: done(count + (_count(images) if whose == "untrained" else 0)),
        )
    facts: dict[str, object] = {"data": images.name, "limit": limit, "images_digest": digest(images)}
    path = keep(folder, loaded.step, found, facts)
    if json:
        show_json({**found.to_dict(), "record": str(path)})
    else:
        show(found)
        say(f"wrote {path}")


def keep(run: RunFolder, step: int, found: Evidence, facts: dict[str, object]) -> Path:
    """Write the evidence into the run folder, and return where."""
    run.probes.mkdir(exist_ok=True)
    values = {"kind": "probe", "step": step, **facts, **found.to_dict()}
    settings = {"protocol": found.protocol, **facts}
    path = run.probes / f"probe-{step:08d}-{facts['data']}-{tag(settings)}.json"
    write_json(path, record(values))
    return path


def digest(images: ImageSet) -> str:
    """One hash of all pixels and labels; settings of training, such as augmentation, do not enter."""
    state = hashlib.blake2b(digest_size=16)
    for split in (images.train, images.validation, images.test):
        for tensor in (split.images, split.labels):
            state.update(str(None if tensor is None else tuple(tensor.shape)).encode())
            state.update(b"" if tensor is None else tensor.contiguous().numpy().data)
    return state.hexdigest()


def show(found: Evidence) -> None:
    """The table of layers, and the controls under it."""
    untrained = found.controls["untrained"].layers
    rows = [
        (
            f"layer {own.layer}{' *' if own.layer == found.network.best else ''}",
            percent(own),
            _one(own.validation),
            _one(other.test),
        )
        for own, other in zip(found.network.layers, untrained, strict=True)
    ]
    counts = ", ".join(f"{count:,} {name}" for name, count in found.network.images.items())
    show_table(
        f"Linear probe, {found.network.classes} classes, {counts} images; * best on validation",
        ["", "test accuracy (95 % interval)", "validation", "untrained, test"],
        rows,
    )
    controls = [(name, percent(record.score)) for name, record in found.controls.items()]
    controls.append(("most frequent class", _one(found.network.majority)))
    show_table("Controls, best layer by validation", ["", "test accuracy (95 % interval)"], controls)
    for warning in found.network.warnings:
        say(f"note: {warning}")


def percent(score: LayerScore) -> str:
    """The test accuracy with its interval."""
    return f"{score.test:.1%} ({score.low:.1%} to {score.high:.1%})"


def _one(share: float) -> str:
    return f"{share:.1%}"


def _count(images: ImageSet) -> int:
    return sum(len(split) for split in (images.train, images.validation, images.test))
