"""Measure a run from Python: probe, evaluate and low_data."""

from collections.abc import Sequence
from dataclasses import fields, replace

from isopix.api.arguments import checked
from isopix.api.results import ProbeOutput
from isopix.core import config
from isopix.core.choices import Count
from isopix.core.device import DeviceLike, Precision
from isopix.core.overrides import parse
from isopix.core.registry import kinds_of
from isopix.core.text import did_you_mean
from isopix.data.dataset import ImageDataset
from isopix.model.backbone import FeatureKind
from isopix.model.pool import Pool
from isopix.pretrained.run import (
    DataLike,
    RunLike,
    default_precision,
    evaluation_images,
    leakage_warning,
    logger,
    open_run,
    require_writable,
)
from isopix.probing.base import ProbeMethod
from isopix.probing.config import L2_EXTRA, L2_GRID, ProbeConfig
from isopix.probing.results import ProbeReport
from isopix.runs.load import LoadedRun
from isopix.runs.probe import probe_run, save_report
from isopix.train.parallel import process_group


@checked
def probe(
    run: RunLike,
    *,
    data: DataLike | None = None,
    limit: Count | None = None,
    features: FeatureKind = "normed",
    pool: Pool | None = None,
    start_token: bool = True,
    method: str | ProbeMethod = "lbfgs",
    overrides: Sequence[str] = (),
    iterations: int | None = None,
    layer: int | None = None,
    concat: int = 0,
    mask_ensemble: int = 0,
    refit_on_validation: bool = False,
    l2_grid: Sequence[float] | None = None,
    precision: Precision | None = None,
    seed: int = 0,
    device: DeviceLike = "auto",
) -> ProbeOutput:
    """Linear-probe every layer (iGPT section 2.4), with untrained, shuffled-label and raw-pixel baselines.

    `pool` is by default that of the recipe: `first` (the class token) of a model that has one, else `mean`.
    Layer and L2 penalty (or learning rate, or number of neighbors) are chosen on the validation split;
    `l2_grid` replaces the default grid of penalties. `method` is lbfgs, sgd, adam, ridge, knn, one of a
    plugin, or a `parts.ProbeMethod`; `overrides` are its settings as `name=value`, and `iterations` the steps
    of sgd. `concat=5` also probes five layers concatenated; with `mask_ensemble` a masked model is probed
    under random masks, that many per test image. `precision` is by default that of the run or of the model.
    The report is saved in the run's `probes` folder. Processes that torchrun has started compute features
    together; all return the report. Raises ValueError for wrong arguments and for images without labels,
    RuntimeError if a fit did not converge.
    """
    settings = ProbeConfig(
        method=probe_method(method, iterations, overrides),
        features=features,
        start_token=start_token,
        layer=layer,
        concat=concat,
        mask_ensemble=mask_ensemble,
        refit_on_validation=refit_on_validation,
        seed=seed,
        l2_grid=L2_GRID if l2_grid is None else tuple(l2_grid),
        l2_extra=L2_EXTRA if l2_grid is None else (),
    )
    with process_group(device) as where, open_run(run, str(where)) as (folder, model):
        if folder is not None:
            require_writable(folder.probes)
        loaded, precision = model.loaded, precision or default_precision(run, model)
        settings = replace(settings, pool=pool or model.pool)
        images = evaluation_images(loaded, data, limit)
        report = _probe(loaded, images, settings, precision)
    warnings = (*report.network.warnings, *leakage_warning(loaded.recipe.data, data))
    report = replace(report, network=replace(report.network, warnings=warnings))
    facts: dict[str, object] = {"data": images.name, "limit": limit}
    path = None if folder is None else save_report(folder, loaded.step, report, facts)
    return ProbeOutput(report, images.name, loaded.step, path)


def _probe(
    loaded: LoadedRun,
    images: ImageDataset,
    settings: ProbeConfig,
    precision: Precision,
) -> ProbeReport:
    return probe_run(loaded, images, precision=precision, config=settings, note=logger.info)


def probe_method(method: str | ProbeMethod, iterations: int | None, overrides: Sequence[str]) -> ProbeMethod:
    """Return the method with its settings. Raises ValueError for one that is not registered, for settings
    that it does not have, and for iterations of a method without them.
    """
    methods, changes = kinds_of(ProbeMethod), parse(overrides)
    if isinstance(method, ProbeMethod):
        if type(method) not in methods.values():
            name = type(method).__name__
            raise ValueError(f"method {name} is not registered; decorate it with isopix.parts.register")
        values = config.to_dict(method)
    elif method in methods:
        values = {"kind": method}
    else:
        hint = did_you_mean(method, methods)
        raise ValueError(f"method is '{method}'; {hint}allowed: {', '.join(sorted(methods))}")
    if "kind" in changes:
        raise ValueError(f"kind is no setting of method {values['kind']}; choose another by method")
    if iterations is not None:
        has = [kind for kind, cls in methods.items() if "iterations" in {each.name for each in fields(cls)}]
        if values["kind"] not in has:
            only = f"only {' and '.join(has)} {'has' if len(has) == 1 else 'have'}"
            raise ValueError(f"iterations is {iterations}, but method {values['kind']} has none; {only}")
        changes["iterations"] = iterations
    return config.from_dict(methods[values["kind"]], {**values, **changes})
