"""`isopix probe`: linear-probe accuracy of every layer, with baselines."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import evaluation
from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherLabeled,
    Plugins,
    Seed,
    load_plugins,
    note,
    say,
    say_wrapped,
    show_json,
    show_table,
)
from isopix.cli.launch import Devices, launch_ranks
from isopix.core.choices import FeatureKind, Pool, Precision
from isopix.core.text import percent_with_interval
from isopix.probing.baselines import baseline_title
from isopix.probing.config import ProbeConfig
from isopix.probing.results import ConcatResult, LayerScore, ProbeReport
from isopix.reporting.section import signed_points

Features = Annotated[
    FeatureKind,
    Parameter(help="normed: activations after the next block's norm (paper); residual: the residual stream."),
]
Pooling = Annotated[
    Pool | None,
    Parameter(help="grid4: means of 4 x 4 cells; flatten: all; first: class token. Default: the recipe's."),
]
StartToken = Annotated[
    bool, Parameter(help="Read features with the start token; without it they match those of transformers.")
]
MethodName = Annotated[
    str,
    Parameter(
        help="Classifier: lbfgs, sgd or adam (logistic regression), ridge (regression), knn, or one of a "
        "plugin."
    ),
]


def probe(
    run: Path,
    *settings: str,
    data: OtherLabeled = None,
    limit: Limit = None,
    features: Features = "normed",
    pool: Pooling = None,
    start_token: StartToken = True,
    method: MethodName = "lbfgs",
    iterations: int | None = None,
    layer: int | None = None,
    concat: int = 0,
    mask_ensemble: int = 0,
    refit_on_validation: bool = False,
    precision: Precision | None = None,
    seed: Seed = 0,
    plugin: Plugins = None,
    device: Device = "auto",
    devices: Devices = None,
    json: Json = False,
) -> None:
    """Linear-probe every layer on pooled features, with untrained, shuffled-label and raw-pixel baselines.

    The layer and the L2 penalty (or learning rate, or number of neighbors) are chosen on the validation
    split; accuracy is reported on the test split. Results go to the run's `probes` folder.

    Example: isopix probe runs/photos --limit 5000

    Parameters
    ----------
    run
        Run folder, or a model that `isopix models` lists.
    settings
        Settings of the method to override, as name=value: --method knn temperature=0.1.
    iterations
        SGD steps at every learning rate.
    layer
        Probe this layer only. Default: all layers.
    concat
        Also probe this many layers around the best one, concatenated (paper: 5).
    mask_ensemble
        For masked models: classify each test image under this many random masks, and take the majority vote.
    refit_on_validation
        Also refit the best layer on train + validation, with the chosen L2 penalty.
    precision
        Precision of the forward pass. Default: that of the run.
    """
    launch_ranks(devices, device)
    load_plugins(plugin)
    found = evaluation.probe(
        run,
        data=data,
        limit=limit,
        features=features,
        pool=pool,
        start_token=start_token,
        method=method,
        overrides=settings,
        iterations=iterations,
        layer=layer,
        concat=concat,
        mask_ensemble=mask_ensemble,
        refit_on_validation=refit_on_validation,
        precision=precision,
        seed=seed,
        device=device,
    )
    if json:
        show_json({**found.report.to_dict(), "record": str(found.path)})
    else:
        _print_report(found.report)
        say(f"wrote {found.path}")


def _print_report(found: ProbeReport) -> None:
    """Print the table of layers and the table of baselines."""
    network, untrained = found.network, found.baselines["untrained"]
    pairs = [
        (f"{own.layer}{' *' if own is network.best else ''}", own, other)
        for own, other in zip(network.layers, untrained.layers, strict=True)
    ]
    if network.concat and untrained.concat:
        pairs.append((_concatenated(network.concat), network.concat.score, untrained.concat.score))
    rows = [
        (
            name,
            _interval(own),
            *_mask_accuracies(own),
            *map(_percent, (own.val_accuracy, other.test_accuracy)),
        )
        for name, own, other in pairs
    ]
    if found.refit:
        name = f"{found.refit.layer}, refit on train + val"
        rows.append((name, _interval(found.refit), *_mask_accuracies(found.refit), "", ""))
    masked = ["single mask", "averaged"] if found.config.mask_ensemble else []
    measured = f", {found.measurement.line}" if found.measurement else ""
    show_table(
        f"{_title(found.config)}{measured}; * best on validation",
        ["layer", "test accuracy (95 % CI)", *masked, "validation", "untrained"],
        rows,
    )
    show_table(
        "Baselines, best layer on validation", ["baseline", "test accuracy (95 % CI)"], _baselines(found)
    )
    if found.gain:
        low, high = map(signed_points, found.gain.interval)
        preposition = "over" if found.gain.difference >= 0 else "from"
        say_wrapped(
            f"{signed_points(found.gain.difference)} points {preposition} {found.gain.baseline}, the best"
            f" baseline (95 % CI of the paired difference: {low} to {high})"
        )
    for warning in network.warnings:
        note(warning)


def _baselines(found: ProbeReport) -> list[tuple[str, str]]:
    """Return the name and the accuracy of every baseline."""
    rows = [
        (baseline_title(name, record.num_features), _interval(record.best))
        for name, record in found.baselines.items()
    ]
    return [*rows, ("majority class", _percent(found.network.majority_accuracy))]


def _title(config: ProbeConfig) -> str:
    """Return method, pool and mask ensemble: `Ridge regression, pool mean, majority vote of 5 masks`."""
    title, count = config.method.label(), config.mask_ensemble
    masks = f"majority vote of {count} masks" if count > 1 else "one mask per image"
    return f"{title[0].upper()}{title[1:]}, pool {config.pool}{f', {masks}' if count else ''}"


def _concatenated(concat: ConcatResult) -> str:
    return f"{concat.layers[0]}-{concat.layers[-1]} concatenated"


def _mask_accuracies(score: LayerScore) -> tuple[str, ...]:
    """Return the accuracies of a single mask and of averaged probabilities, if there are masks."""
    if score.ensemble is None:
        return ()
    return _percent(score.ensemble.single_mask), _percent(score.ensemble.mean_probability)


def _interval(score: LayerScore) -> str:
    return percent_with_interval(score.test_accuracy, *score.interval)


def _percent(fraction: float) -> str:
    return f"{fraction:.1%}"
