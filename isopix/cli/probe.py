"""`isopix probe`: how well a classifier tells classes by each layer, beside the controls."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

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
from isopix.model.backbone import Stream
from isopix.model.pool import Pool
from isopix.probe.config import Method, ProbeConfig
from isopix.probe.features import FeatureKind
from isopix.probe.knn import KnnProbe
from isopix.probe.linear import LbfgsProbe, RidgeProbe
from isopix.probe.results import ConcatResult, LayerScore, ProbeReport
from isopix.probe.sgd import SgdProbe
from isopix.runs.load import Loaded
from isopix.runs.probe import probe_run, save_report
from isopix.storage.run_folder import RunFolder

Which = Annotated[Stream, Parameter(help="n: states after the next norm, as the paper; h: as they are")]
Pooling = Annotated[Pool, Parameter(help="how the positions of an image become one vector")]
How = Annotated[
    Literal["paper", "huggingface"],
    Parameter(help="huggingface: without the start symbol, as their feature path; to compare"),
]

FEATURES: dict[Stream, FeatureKind] = {"n": "normed", "h": "residual"}
METHODS: dict[str, Method] = {
    "lbfgs": LbfgsProbe(),
    "sgd": SgdProbe(),
    "ridge": RidgeProbe(),
    "knn": KnnProbe(),
}
MethodName = Annotated[
    Literal["lbfgs", "sgd", "ridge", "knn"],
    Parameter(help=", ".join(method.label() for method in METHODS.values())),
]


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
    layer, concat = layers_of(layers)
    config = ProbeConfig(
        method=method_of(method, iterations),
        features=FEATURES[stream],
        pool=pool,
        start_token=reading == "paper",
        layer=layer,
        concat=concat,
        mask_ensemble=masks,
        refit_on_validation=fold_back,
        seed=seed,
    )
    images = images_for(loaded, data, limit)
    found = _evidence(loaded, images, config, precision or loaded.recipe.precision)
    warnings = (*found.network.warnings, *learnt_before(loaded.recipe.data, data))
    found = replace(found, network=replace(found.network, warnings=warnings))
    facts: dict[str, object] = {"data": images.name, "limit": limit, "images_digest": digest(images)}
    path = save_report(folder, loaded.step, found, facts)
    if json:
        show_json({**found.to_dict(), "record": str(path)})
    else:
        show(found)
        say(f"wrote {path}")


def method_of(name: str, iterations: int | None) -> Method:
    """The method of that name. Raises ValueError for iterations of one that has none."""
    method = METHODS[name]
    if iterations is None:
        return method
    if not isinstance(method, SgdProbe):
        raise ValueError(f"iterations {iterations} are for --method sgd alone; {name} has none")
    return replace(method, iterations=iterations)


def layers_of(word: str) -> tuple[int | None, int]:
    """The one layer to probe, if any, and how many to concatenate. Raises ValueError for a word that is none
    of `all`, `best5` and the number of a layer.
    """
    if word in ("all", "best5"):
        return None, 5 if word == "best5" else 0
    if not word.isdecimal():
        raise ValueError(f"--layers is '{word}'; allowed: all, best5, or the number of a layer")
    return int(word), 0


def _evidence(loaded: Loaded, images: ImageSet, config: ProbeConfig, precision: Precision) -> ProbeReport:
    """The evidence, with a bar for the images that have been read; where features are kept is said beside."""
    count = len(images.train) + len(images.validation) + max(1, config.mask_ensemble) * len(images.test)
    before = {"trained": 0, "untrained": count}
    with counting("features", 2 * count) as done:
        return probe_run(
            loaded,
            images,
            precision=precision,
            config=config,
            progress=lambda whose, read: done(before[whose] + read) if whose in before else None,
            note=warn,
        )


def show(found: ProbeReport) -> None:
    """The table of layers, and the controls under it."""
    network, untrained = found.network, found.baselines["untrained"]
    pairs = [
        (f"layer {own.layer}{' *' if own is network.best else ''}", own, other)
        for own, other in zip(network.layers, untrained.layers, strict=True)
    ]
    if network.concat and untrained.concat:
        pairs.append((_concat(network.concat), network.concat.score, untrained.concat.score))
    rows = [
        (name, _percent(own), *_votes(own), *map(_one, (own.val_accuracy, other.test_accuracy)))
        for name, own, other in pairs
    ]
    if found.refit:
        name = f"layer {found.refit.layer}, refit on train + validation"
        rows.append((name, _percent(found.refit), *_votes(found.refit), "", ""))
    masked = ["one mask", "averaged"] if found.config.mask_ensemble else []
    counts = ", ".join(f"{count:,} {name}" for name, count in network.num_images.items())
    show_table(
        f"{_how(found.config)}, {network.num_classes} classes, {counts} images; * best on validation",
        ["", "test accuracy (95 % interval)", *masked, "validation", "untrained, test"],
        rows,
    )
    controls = [(name, _percent(record.best)) for name, record in found.baselines.items()]
    controls.append(("most frequent class", _one(network.majority_accuracy)))
    show_table("Controls, best layer by validation", ["", "test accuracy (95 % interval)"], controls)
    for warning in network.warnings:
        say(f"note: {warning}")


def _how(config: ProbeConfig) -> str:
    """The method, and the vote if there is one: `Ridge regression, majority vote over 5 masks`."""
    title = config.method.label()
    masks = (
        f"majority vote over {config.mask_ensemble} masks"
        if config.mask_ensemble > 1
        else "one mask per image"
    )
    return title[0].upper() + title[1:] + (f", {masks}" if config.mask_ensemble else "")


def _concat(concat: ConcatResult) -> str:
    return f"layers {concat.layers[0]}-{concat.layers[-1]} concatenated"


def _votes(score: LayerScore) -> tuple[str, ...]:
    """What one mask and the mean probability of all reach, if there are masks."""
    return (
        ()
        if score.ensemble is None
        else (_one(score.ensemble.single_mask), _one(score.ensemble.mean_probability))
    )


def _percent(score: LayerScore) -> str:
    return percent(score.test_accuracy, *score.interval)


def _one(share: float) -> str:
    return f"{share:.1%}"
