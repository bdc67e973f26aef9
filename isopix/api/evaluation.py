"""Measure a run from Python: probe, evaluate and low_data."""

import os
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from isopix.api.arguments import NonNegative, checked
from isopix.api.progress import Progress, count_progress
from isopix.api.results import EvaluationOutput, LowDataOutput, ProbeOutput
from isopix.api.run import (
    DataLike,
    RunLike,
    TrainingProgress,
    default_precision,
    evaluation_data,
    evaluation_images,
    leakage_warning,
    logger,
    open_run,
    run_folder,
    save_record,
    warn_of_damage,
)
from isopix.core import config
from isopix.core import device as devices
from isopix.core.device import Precision
from isopix.core.overrides import parse
from isopix.core.ranges import Count
from isopix.core.registry import kinds_of
from isopix.data.dataset import ImageDataset, content_hash
from isopix.finetuning.evaluate import check_masks, default_masks, evaluate_finetuned
from isopix.model.backbone import FeatureKind
from isopix.model.pool import Pool
from isopix.probing.base import ProbeMethod
from isopix.probing.config import L2_EXTRA, L2_GRID, ProbeConfig
from isopix.probing.low_data import LowDataProtocol, LowDataResult, probe_low_data
from isopix.probing.results import ProbeReport
from isopix.runs.load import LoadedRun, load_finetuned
from isopix.runs.low_data import FineTuneJob, finetune_job, finetune_low_data
from isopix.runs.probe import feature_sources, probe_run, save_report
from isopix.runs.training import RunObserver
from isopix.storage.provenance import settings_hash
from isopix.storage.run_folder import RunFolder

LABELS = (4, 25, 400)  # labeled images per class (iGPT section 4.7)
LARGER_L2 = tuple(l2 for l2 in L2_GRID if l2 >= 1e-4)  # few images are separable even with small weights


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
    device: str = "auto",
    progress: Progress | None = None,
) -> ProbeOutput:
    """Linear-probe every layer (iGPT section 2.4), with untrained, shuffled-label and raw-pixel baselines.

    `pool` is by default that of the recipe: `first` (the class token) of a model that has one, else `mean`.
    Layer and L2 penalty (or learning rate, or number of neighbors) are chosen on the validation split;
    `l2_grid` replaces the default grid of penalties. `method` is lbfgs, sgd, ridge, knn, one of a plugin, or
    a `parts.ProbeMethod`; `overrides` are its settings as `name=value`, and `iterations` the steps of sgd.
    `concat=5` also probes five layers concatenated; with `mask_ensemble` a masked model is probed under
    random masks, that many per test image. `precision` is by default that of the run or of the model. The
    report is saved in the run's `probes` folder. Raises ValueError for wrong arguments and for images without
    labels, RuntimeError if a fit did not converge.
    """
    settings = ProbeConfig(
        method=_method(method, iterations, overrides),
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
    with open_run(run, device) as (folder, model):
        loaded, precision = model.loaded, precision or default_precision(run, model)
        settings = replace(settings, pool=pool or model.pool)
        images = evaluation_images(loaded, data, limit)
        report = _probe(loaded, images, settings, precision, progress)
    warnings = (*report.network.warnings, *leakage_warning(loaded.recipe.data, data))
    report = replace(report, network=replace(report.network, warnings=warnings))
    facts: dict[str, object] = {"data": images.name, "limit": limit, "images_hash": content_hash(images)}
    path = None if folder is None else save_report(folder, loaded.step, report, facts)
    return ProbeOutput(report, images.name, loaded.step, path)


@checked
def evaluate(
    run: str | os.PathLike[str],
    *,
    data: DataLike | None = None,
    mask_ensemble: int | None = None,
    limit: Count | None = None,
    precision: Precision | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> EvaluationOutput:
    """Evaluate a fine-tuned run on the test images of its dataset, or of another with the same classes.

    `mask_ensemble` is the number of masks per image whose predictions are combined by majority vote; 0 masks
    nothing; None is the run's own setting. The metrics are saved in the run's `evaluations` folder. Raises
    ValueError for a run that is not fine-tuned and for other classes.
    """
    folder, tuned = run_folder(run), load_finetuned(Path(run), device=devices.select_device(device))
    loaded = tuned.loaded
    warn_of_damage(loaded)
    masks = default_masks(tuned.model) if mask_ensemble is None else mask_ensemble
    check_masks(tuned.model, masks)
    images = evaluation_images(loaded, data, limit)
    precision = precision or loaded.recipe.train.precision
    done = count_progress(progress, len(images.test) * max(1, masks))
    metrics = evaluate_finetuned(
        tuned.model, tuned.classes, images, masks=masks, seed=seed, precision=precision, progress=done
    )
    facts: dict[str, Any] = {"data": images.name, "limit": limit, "masks": masks, "seed": seed}
    facts |= {"precision": precision, "images_hash": content_hash(images)}
    record = {"kind": "evaluation", "step": loaded.step, **facts, "classes": list(tuned.classes)}
    record |= config.to_dict(metrics)
    name = f"evaluate-{loaded.step:08d}-{images.name}-{settings_hash(facts)}.json"
    path = save_record(folder.evaluations / name, record)
    return EvaluationOutput(metrics, tuned.classes, images.name, loaded.step, masks, record, path)


@checked
def low_data(
    run: RunLike,
    *,
    labels: Sequence[Count] = LABELS,
    subsets: Count = 5,
    data: DataLike | None = None,
    limit: Count | None = None,
    finetune_steps: NonNegative = 0,
    overrides: Sequence[str] = (),
    precision: Precision | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    training_progress: TrainingProgress | None = None,
) -> LowDataOutput:
    """Measure the test error with few labels over random balanced subsets (iGPT section 4.7).

    A linear probe of the layer chosen on the validation split, with an untrained network and raw pixels as
    baselines; with `finetune_steps` the run is also fine-tuned on every subset, with settings `overrides`.
    Results and fine-tuned runs are saved in the run's `low-data` folder. Raises ValueError for wrong
    arguments and for classes with too few images.
    """
    if overrides and not finetune_steps:
        raise ValueError(f"'{overrides[0]}' is a fine-tuning setting; it needs finetune_steps above 0")
    protocol = LowDataProtocol(tuple(labels), subsets)
    with open_run(run, device) as (folder, model):
        loaded, precision = model.loaded, precision or default_precision(run, model)
        images = evaluation_images(loaded, data, limit)
        job = None
        if finetune_steps:
            words = (f"steps={finetune_steps}", *overrides)
            job = _finetune_job(folder, loaded, words, data, limit, images, device)
        config = ProbeConfig(pool=model.pool, l2_grid=LARGER_L2, l2_extra=())
        results = _probe_low_data(loaded, images, protocol, config, precision, progress)
    facts: dict[str, Any] = {"data": images.name, "limit": limit, "seed": loaded.recipe.train.seed}
    facts |= {"subsets": subsets, "pool": config.pool}
    if job:
        watch = RunObserver()
        if training_progress is not None:
            watch = RunObserver(partial(training_progress, job.recipe))
        results["fine-tuned"] = finetune_low_data(job, protocol, watch)
        facts |= {"finetune_steps": finetune_steps, "settings": tuple(overrides)}
    record = {"kind": "low_data", "step": loaded.step, **facts, "results": _summary(results)}
    path = None
    if folder is not None:
        suffix = settings_hash({**facts, "labels": protocol.labels_per_class})
        name = f"low-data-{loaded.step:08d}-{images.name}-{suffix}.json"
        path = save_record(folder.path / "low-data" / name, record)
    sizes = {"validation": len(images.validation), "test": len(images.test)}
    warnings = leakage_warning(loaded.recipe.data, data)
    return LowDataOutput(results, images.name, sizes, loaded.step, warnings, record, path)


def _probe(
    loaded: LoadedRun,
    images: ImageDataset,
    settings: ProbeConfig,
    precision: Precision,
    progress: Progress | None,
) -> ProbeReport:
    """Run the probe; `progress` counts the images read by the trained and the untrained network."""
    total = len(images.train) + len(images.validation) + max(1, settings.mask_ensemble) * len(images.test)
    offsets, done = {"trained": 0, "untrained": total}, count_progress(progress, 2 * total)
    return probe_run(
        loaded,
        images,
        precision=precision,
        config=settings,
        progress=lambda network, count: done(offsets[network] + count) if network in offsets else None,
        note=logger.info,
    )


def _method(method: str | ProbeMethod, iterations: int | None, overrides: Sequence[str]) -> ProbeMethod:
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
        raise ValueError(f"method is '{method}'; allowed: {', '.join(sorted(methods))}")
    if "kind" in changes:
        raise ValueError(f"kind is no setting of method {values['kind']}; choose another by method")
    if iterations is not None:
        has = [kind for kind, cls in methods.items() if "iterations" in {each.name for each in fields(cls)}]
        if values["kind"] not in has:
            only = f"only {' and '.join(has)} {'has' if len(has) == 1 else 'have'}"
            raise ValueError(f"iterations is {iterations}, but method {values['kind']} has none; {only}")
        changes["iterations"] = iterations
    return config.from_dict(methods[values["kind"]], {**values, **changes})


def _probe_low_data(
    loaded: LoadedRun,
    images: ImageDataset,
    protocol: LowDataProtocol,
    config: ProbeConfig,
    precision: Precision,
    progress: Progress | None,
) -> dict[str, list[LowDataResult]]:
    count = len(images.train) + len(images.validation) + len(images.test)
    done = count_progress(progress, count)
    return probe_low_data(
        feature_sources(loaded, config, precision),
        images,
        protocol,
        seed=loaded.recipe.data.seed,
        config=config,
        device=loaded.network.device,
        progress=lambda fraction: done(round(fraction * count)),
    )


def _finetune_job(
    folder: RunFolder | None,
    loaded: LoadedRun,
    words: Sequence[str],
    data: DataLike | None,
    limit: int | None,
    images: ImageDataset,
    device: str,
) -> FineTuneJob:
    if folder is None or isinstance(data, ImageDataset):
        raise ValueError("fine-tuning needs a run folder, and a dataset by name or path")
    return finetune_job(
        folder.path,
        words,
        images=evaluation_data(loaded, data, limit),
        num_test_images=len(images.test),
        out=folder.path / "low-data",
        device=devices.select_device(device),
    )


def _summary(results: dict[str, list[LowDataResult]]) -> dict[str, list[dict[str, Any]]]:
    """Return every number, with mean and standard deviation over the subsets."""
    return {
        method: [{**asdict(each), "mean": each.mean, "std": each.std} for each in found]
        for method, found in results.items()
    }
