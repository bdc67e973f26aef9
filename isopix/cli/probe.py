"""`isopix probe`: how well a classifier tells classes by each layer, beside the controls."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, cast

from cyclopts import Parameter

from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherLabelled,
    Seed,
    percent,
    say,
    show_json,
    show_table,
    warn,
)
from isopix.cli.loading import images_for, learnt_before, network_of
from isopix.cli.progress import counting
from isopix.core.device import Precision
from isopix.data.dataset import ImageSet, digest
from isopix.model.pool import Pool
from isopix.probe.base import ProbeMethod
from isopix.probe.features import Stream
from isopix.probe.knn import Knn
from isopix.probe.linear import Lbfgs, Ridge
from isopix.probe.results import TITLES, Evidence, Joined, Layers, LayerScore, Protocol, Reading
from isopix.probe.sgd import Sgd
from isopix.runs.load import Loaded
from isopix.runs.probe import evidence, keep
from isopix.storage.run_folder import RunFolder

Which = Annotated[Stream, Parameter(help="n: states after the next norm, as the paper; h: as they are")]
Pooling = Annotated[Pool, Parameter(help="how the positions of an image become one vector")]
How = Annotated[
    Reading, Parameter(help="huggingface: without the start symbol, as their feature path; to compare")
]

MethodName = Annotated[
    Literal["lbfgs", "sgd", "ridge", "knn"],
    Parameter(help=", ".join(TITLES.values())),
]
METHODS: dict[str, ProbeMethod] = {"lbfgs": Lbfgs(), "sgd": Sgd(), "ridge": Ridge(), "knn": Knn()}


def probe(
    run: Path,
    *,
    data: OtherLabelled = None,
    limit: Limit = None,
    stream: Which = "n",
    pool: Pooling = "mean",
    reading: How = "paper",
    method: MethodName = "lbfgs",
    iterations: int | None = None,
    layers: str = "all",
    masks: int = 0,
    fold_back: bool = False,
    precision: Precision | None = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Probe of every layer: a classifier on pooled features, by --method, with controls.

    Strength (or rate, or number of neighbours) and layer are chosen on the validation split and reported on
    the test split. The numbers are kept in the run's `probes` folder; the features of sgd in
    $ISOPIX_CACHE/features, where the next probe finds them.

    Example: isopix probe runs/photos --limit 5000 --json

    Parameters
    ----------
    run
        The run folder.
    iterations
        Steps of sgd at every rate.
    layers
        all; best5: also the five layers around the best as one; or the number of one layer.
    masks
        Of a masked run: training images read under a mask each, test images under so many that vote.
    fold_back
        Then also fit the chosen layer to training and validation images together, at what validation chose.
    precision
        Of the network's arithmetic; the run's own without it.
    """
    folder, loaded = RunFolder.open(run), network_of(run, device)
    protocol = Protocol(
        method=method_of(method, iterations),
        stream=stream,
        pool=pool,
        reading=reading,
        layers=layers_of(layers),
        masks=masks,
        fold_back=fold_back,
        seed=seed,
    )
    images = images_for(loaded, data, limit)
    found = _evidence(loaded, images, protocol, precision or loaded.recipe.train.precision)
    warnings = (*found.network.warnings, *learnt_before(loaded.recipe.data, data))
    found = replace(found, network=replace(found.network, warnings=warnings))
    facts: dict[str, object] = {"data": images.name, "limit": limit, "images_digest": digest(images)}
    path = keep(folder, loaded.step, found, facts)
    if json:
        show_json({**found.to_dict(), "record": str(path)})
    else:
        show(found)
        say(f"wrote {path}")


def method_of(name: str, iterations: int | None) -> ProbeMethod:
    """The method of that name. Raises ValueError for iterations of one that has none."""
    method = METHODS[name]
    if iterations is None:
        return method
    if not isinstance(method, Sgd):
        raise ValueError(f"iterations {iterations} are for --method sgd alone; {name} has none")
    return replace(method, iterations=iterations)


def layers_of(word: str) -> Layers:
    """`all`, `best5`, or the number of a layer. Raises ValueError for any other word."""
    if word in ("all", "best5"):
        return cast("Layers", word)
    if not word.isdecimal():
        raise ValueError(f"--layers is '{word}'; allowed: all, best5, or the number of a layer")
    return int(word)


def _evidence(loaded: Loaded, images: ImageSet, protocol: Protocol, precision: Precision) -> Evidence:
    """The evidence, with a bar for the images that have been read; where features are kept is said beside."""
    count = len(images.train) + len(images.validation) + max(1, protocol.masks) * len(images.test)
    before = {"trained": 0, "untrained": count}
    with counting("features", 2 * count) as done:
        return evidence(
            loaded,
            images,
            precision=precision,
            protocol=protocol,
            progress=lambda whose, read: done(before[whose] + read) if whose in before else None,
            note=warn,
        )


def show(found: Evidence) -> None:
    """The table of layers, and the controls under it."""
    network, untrained = found.network, found.controls["untrained"]
    pairs = [
        (f"layer {own.layer}{' *' if own is network.score else ''}", own, other)
        for own, other in zip(network.layers, untrained.layers, strict=True)
    ]
    if network.joined and untrained.joined:
        pairs.append((_joined(network.joined), network.joined.score, untrained.joined.score))
    rows = [
        (name, _percent(own), *_votes(own), *map(_one, (own.validation, other.test)))
        for name, own, other in pairs
    ]
    if found.folded:
        name = f"layer {found.folded.layer}, validation folded back"
        rows.append((name, _percent(found.folded), *_votes(found.folded), "", ""))
    masked = ["one mask", "averaged"] if found.protocol.masks else []
    counts = ", ".join(f"{count:,} {name}" for name, count in network.images.items())
    show_table(
        f"{_how(found.protocol)}, {network.classes} classes, {counts} images; * best on validation",
        ["", "test accuracy (95 % interval)", *masked, "validation", "untrained, test"],
        rows,
    )
    controls = [(name, _percent(record.score)) for name, record in found.controls.items()]
    controls.append(("most frequent class", _one(network.majority)))
    show_table("Controls, best layer by validation", ["", "test accuracy (95 % interval)"], controls)
    for warning in network.warnings:
        say(f"note: {warning}")


def _how(protocol: Protocol) -> str:
    """The method, and the vote if there is one: `Ridge regression, modal vote of 5 masks`."""
    title = TITLES[protocol.method.kind]
    masks = f"modal vote of {protocol.masks} masks" if protocol.masks > 1 else "one mask an image"
    return title[0].upper() + title[1:] + (f", {masks}" if protocol.masks else "")


def _joined(joined: Joined) -> str:
    return f"layers {joined.layers[0]}-{joined.layers[-1]} joined"


def _votes(score: LayerScore) -> tuple[str, ...]:
    """What one mask and the mean probability of all reach, if there are masks."""
    return (
        () if score.ensemble is None else (_one(score.ensemble.single), _one(score.ensemble.mean_probability))
    )


def _percent(score: LayerScore) -> str:
    return percent(score.test, score.low, score.high)


def _one(share: float) -> str:
    return f"{share:.1%}"
