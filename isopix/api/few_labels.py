"""Measure a run with few labels from Python."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from isopix.api.arguments import NonNegative, checked
from isopix.api.evaluation import probe_method
from isopix.api.results import LowDataOutput
from isopix.core import device as devices
from isopix.core.choices import Count
from isopix.core.device import DeviceLike, Precision
from isopix.core.measurement import Measurement
from isopix.core.text import printable
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import majority_baseline
from isopix.model.pool import Pool
from isopix.pretrained.run import (
    DataLike,
    RunLike,
    default_precision,
    evaluation_data,
    evaluation_images,
    labels_warning,
    leakage_warning,
    open_run,
    require_writable,
    save_record,
)
from isopix.probing.base import ProbeMethod
from isopix.probing.config import L2_GRID, ProbeConfig
from isopix.probing.low_data import LowDataProtocol, LowDataResult, Selection, probe_low_data
from isopix.runs.load import LoadedRun
from isopix.runs.low_data import FineTuneJob, finetune_job, finetune_low_data
from isopix.runs.probe import feature_sources
from isopix.storage.provenance import settings_hash
from isopix.storage.run_folder import RunFolder

logger = logging.getLogger(__name__)

LABELS = (4, 25, 400)  # labeled images per class (iGPT section 4.7)
LARGER_L2 = tuple(l2 for l2 in L2_GRID if l2 >= 1e-4)  # few images are separable even with small weights


@checked
def low_data(
    run: RunLike,
    *,
    labels: Sequence[Count | str] | None = None,
    subsets: Count = 5,
    select: Selection = "validation",
    method: str | ProbeMethod = "lbfgs",
    layer: int | None = None,
    pool: Pool | None = None,
    data: DataLike | None = None,
    limit: Count | None = None,
    finetune_steps: NonNegative = 0,
    overrides: Sequence[str] = (),
    precision: Precision | None = None,
    device: DeviceLike = "auto",
) -> LowDataOutput:
    """Measure the test error with few labels over random balanced subsets (iGPT section 4.7).

    `labels` are numbers of images per class, or percentages of each class as in `10%`; by default 4, 25 and
    400, of which those that the smallest class does not have are left out with a warning.
    A linear probe of the layer chosen on the validation split, with an untrained network, raw pixels and
    their principal components as baselines; `method`, `layer` and `pool` as in `probe`. With
    `finetune_steps` the run is also fine-tuned on every subset, with settings `overrides`.
    `select="cross-validation"` chooses layer and L2 penalty within the labeled subset, without validation
    images, and fine-tunes for exactly `finetune_steps` steps. Warns of a run that was trained on labels.
    Results and fine-tuned runs are saved in the run's `low-data` folder. Raises ValueError for wrong
    arguments and for classes with too few images.
    """
    if overrides and not finetune_steps:
        raise ValueError(f"'{overrides[0]}' is a fine-tuning setting; it needs finetune_steps above 0")
    with open_run(run, device) as (folder, model):
        if folder is not None:
            require_writable(folder.low_data)
        loaded, precision = model.loaded, precision or default_precision(run, model)
        images = evaluation_images(loaded, data, limit)
        protocol = LowDataProtocol(_labels(labels, images), subsets, select)
        job = None
        if finetune_steps:
            fixed = () if select == "validation" else ("patience=null",)
            words = (f"steps={finetune_steps}", *overrides, *fixed)
            job = _finetune_job(folder, loaded, words, data, limit, images, device)
        probing = ProbeConfig(
            method=probe_method(method, None, ()),
            layer=layer,
            pool=pool or model.pool,
            l2_grid=LARGER_L2,
            l2_extra=(),
        )
        results = _probe_low_data(loaded, images, protocol, probing, precision)
    facts: dict[str, Any] = {"data": images.name, "limit": limit, "seed": loaded.recipe.train.seed}
    facts |= {"method": probing.method.kind, "layer": layer, "pool": probing.pool}
    facts |= {"subsets": subsets, "select": select}
    if job:
        results["fine-tuned"] = finetune_low_data(job, protocol)
        facts |= {"finetune_steps": finetune_steps, "settings": tuple(overrides)}
    measurement = _measurement(loaded, images, select)
    warnings = (
        *leakage_warning(loaded.recipe.data, data),
        *labels_warning(loaded),
        *measurement.warnings,
    )
    record = {"kind": "low_data", "step": loaded.step, **facts, "results": _summary(results)}
    record |= {"measurement": measurement.to_dict(), "warnings": warnings}
    path = None if folder is None else _save(folder, record, {**facts, "labels": protocol.labels_per_class})
    sizes = {"validation": len(images.validation), "test": len(images.test)}
    return LowDataOutput(
        results, images.name, sizes, loaded.step, warnings, measurement, record, path, select
    )


def _labels(given: Sequence[int | str] | None, data: ImageDataset) -> tuple[int | str, ...]:
    """Return the numbers that are given, or those of LABELS that every class has; all if none has any."""
    if given is not None:
        return tuple(given)
    if data.train.labels is None or not len(data.train):
        return LABELS
    counts = torch.bincount(data.train.labels)
    smallest, label = min((int(n), label) for label, n in enumerate(counts) if n)
    kept = tuple(count for count in LABELS if count <= smallest)
    if len(kept) in (0, len(LABELS)):
        return LABELS
    left_out = " and ".join(str(count) for count in LABELS if count not in kept)
    name = printable(data.classes[label])
    logger.warning(
        "%s labels per class are left out: class %s has %s training images", left_out, name, f"{smallest:,}"
    )
    return kept


def _measurement(loaded: LoadedRun, images: ImageDataset, select: Selection) -> Measurement:
    by_validation = f"on {len(images.validation):,} validation images"
    chosen = by_validation if select == "validation" else "within the labeled images"
    return replace(
        loaded.measure(images, "test"),
        selection=f"layer and L2 penalty chosen {chosen}",
        baselines=majority_baseline(images),
    )


def _save(folder: RunFolder, record: dict[str, Any], settings: dict[str, Any]) -> Path:
    name = f"low-data-{record['step']:08d}-{record['data']}-{settings_hash(settings)}.json"
    return save_record(folder.low_data / name, record)


def _probe_low_data(
    loaded: LoadedRun,
    images: ImageDataset,
    protocol: LowDataProtocol,
    config: ProbeConfig,
    precision: Precision,
) -> dict[str, list[LowDataResult]]:
    return probe_low_data(
        feature_sources(loaded, images, config, precision),
        images,
        protocol,
        seed=loaded.recipe.data.seed,
        config=config,
        device=loaded.network.device,
    )


def _finetune_job(
    folder: RunFolder | None,
    loaded: LoadedRun,
    words: Sequence[str],
    data: DataLike | None,
    limit: int | None,
    images: ImageDataset,
    device: DeviceLike,
) -> FineTuneJob:
    if folder is None or isinstance(data, ImageDataset):
        raise ValueError("fine-tuning needs a run folder, and a dataset by name or path")
    return finetune_job(
        folder.path,
        words,
        images=evaluation_data(loaded, data, limit),
        num_test_images=len(images.test),
        out=folder.low_data,
        device=devices.select_device(device),
    )


def _summary(results: dict[str, list[LowDataResult]]) -> dict[str, list[dict[str, Any]]]:
    """Return every number, with mean and standard deviation over the subsets."""
    return {
        method: [{**asdict(each), "mean": each.mean, "std": each.std} for each in found]
        for method, found in results.items()
    }
