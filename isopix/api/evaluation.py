"""Measure a run from Python: probe, evaluate, low_data and verify."""

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from isopix.api.pretrained import STREAMS, FeatureKind
from isopix.api.results import EvaluationOutput, LowDataOutput, ProbeOutput, VerifyOutput
from isopix.api.run import (
    DataLike,
    Progress,
    RunLike,
    TrainingProgress,
    counter,
    evaluation_data,
    evaluation_images,
    leakage_warning,
    load_network,
    logger,
    open_source,
    run_folder,
)
from isopix.codecs.palette_file import OPENAI_FINGERPRINT
from isopix.core import config
from isopix.core import device as devices
from isopix.core.device import Precision
from isopix.data.dataset import ImageDataset
from isopix.model.pool import Pool
from isopix.papers.claim import find_claim
from isopix.papers.igpt import TEST_LOSSES
from isopix.probe.knn import KnnProbe
from isopix.probe.linear import LbfgsProbe, RidgeProbe
from isopix.probe.results import STRENGTHS, WEAKER, ProbeReport, Layers, Method, Protocol
from isopix.probe.sgd import SgdProbe
from isopix.runs.evaluate import evaluate_finetuned as evaluate_run
from isopix.runs.evaluate import load_tuned, check_masks, usual_masks
from isopix.runs.load import Loaded, newest
from isopix.runs.low_data import Question, probe_low_data, finetune_low_data, finetune_job
from isopix.runs.pretrain import Watch
from isopix.runs.probe import evidence, save_report
from isopix.storage import checkpoint
from isopix.storage.atomic import write_json
from isopix.storage.provenance import with_provenance, settings_hash
from isopix.storage.run_folder import RunFolder
from isopix.train.evaluator import evaluate_split
from isopix.train.tasks import PretrainTask

MethodName = Literal["lbfgs", "sgd", "ridge", "knn"]
METHODS: dict[MethodName, Method] = {"lbfgs": LbfgsProbe(), "sgd": SgdProbe(), "ridge": RidgeProbe(), "knn": KnnProbe()}
CONCAT = 5  # layers that can be concatenated (iGPT section 4.2)
LABELS = (4, 25, 400)  # labeled images per class (iGPT section 4.5)
L2_GRID = tuple(l2 for l2 in STRENGTHS if l2 >= 1e-4)  # few images are separable even with small weights


def probe(
    run: RunLike,
    *,
    data: DataLike | None = None,
    limit: int | None = None,
    features: FeatureKind = "normed",
    pool: Pool = "mean",
    start_token: bool = True,
    method: MethodName = "lbfgs",
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

    Layer and L2 penalty (or learning rate, or number of neighbors) are chosen on the validation split;
    `l2_grid` replaces the default grid of penalties. `concat=5` also probes five layers concatenated; with
    `mask_ensemble` a masked model is probed under random masks, that many per test image. The report is saved
    in the run's `probes` folder. Raises ValueError for wrong arguments and for images without labels,
    RuntimeError if a fit did not converge.
    """
    folder, loaded = open_source(run, device)
    protocol = Protocol(
        method=_method(method, iterations),
        stream=STREAMS[features],
        pool=pool,
        reading="paper" if start_token else "huggingface",
        layers=_layers(layer, concat),
        masks=mask_ensemble,
        fold_back=refit_on_validation,
        seed=seed,
        strengths=STRENGTHS if l2_grid is None else tuple(l2_grid),
        weaker=WEAKER if l2_grid is None else (),
    )
    images = evaluation_images(loaded, data, limit)
    report = _probe(loaded, images, protocol, precision or loaded.recipe.train.precision, progress)
    warnings = (*report.network.warnings, *leakage_warning(loaded.recipe.data, data))
    report = replace(report, network=replace(report.network, warnings=warnings))
    facts: dict[str, object] = {"data": images.name, "limit": limit, "images_digest": content_hash(images)}
    path = None if folder is None else save_report(folder, loaded.step, report, facts)
    return ProbeOutput(report, images.name, loaded.step, path)


def evaluate(
    run: str | os.PathLike[str],
    *,
    data: DataLike | None = None,
    mask_ensemble: int | None = None,
    limit: int | None = None,
    precision: Precision | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> EvaluationOutput:
    """Evaluate a fine-tuned run on the test images of its data set, or of another with the same classes.

    `mask_ensemble` is the number of masks per image whose predictions are combined by majority vote; 0 masks
    nothing; None is the run's own setting. The metrics are saved in the run's `evaluations` folder. Raises
    ValueError for a run that is not fine-tuned and for other classes.
    """
    folder, tuned = run_folder(run), load_tuned(Path(run), device=devices.select_device(device))
    for reason in tuned.loaded.passed_over:
        logger.warning("skipped damaged checkpoint: %s", reason)
    masks = usual_masks(tuned) if mask_ensemble is None else mask_ensemble
    check_masks(tuned, masks)
    images = evaluation_images(tuned.loaded, data, limit)
    precision = precision or tuned.loaded.recipe.train.precision
    done = counter(progress, len(images.test) * max(1, masks))
    metrics = evaluate_run(tuned, images, masks=masks, seed=seed, precision=precision, progress=done)
    facts: dict[str, Any] = {"data": images.name, "limit": limit, "masks": masks, "seed": seed}
    facts |= {"precision": precision, "images_digest": content_hash(images)}
    values = {"kind": "evaluation", "step": tuned.loaded.step, **facts, "classes": list(tuned.classes)}
    name = f"evaluate-{tuned.loaded.step:08d}-{images.name}-{settings_hash(facts)}.json"
    path = _save(folder.evaluations / name, values | config.to_dict(metrics))
    return EvaluationOutput(metrics, tuned.classes, images.name, tuned.loaded.step, masks, path)


def low_data(
    run: RunLike,
    *,
    labels: Sequence[int] = LABELS,
    subsets: int = 5,
    data: DataLike | None = None,
    limit: int | None = None,
    finetune_steps: int = 0,
    overrides: Sequence[str] = (),
    precision: Precision | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    training_progress: TrainingProgress | None = None,
) -> LowDataOutput:
    """Measure the test error with few labels over random balanced subsets (iGPT section 4.5).

    A linear probe of the layer chosen on the validation split, with an untrained network and raw pixels as
    baselines; with `finetune_steps` the run is also fine-tuned on every subset, with settings `overrides`.
    Results and fine-tuned runs are saved in the run's `lowdata` folder. Raises ValueError for wrong
    arguments and for classes with too few images.
    """
    if overrides and not finetune_steps:
        raise ValueError(f"'{overrides[0]}' is a setting of fine-finetune_job, which needs finetune_steps above 0")
    question = Question(tuple(labels), subsets)
    folder, loaded = open_source(run, device)
    images = evaluation_images(loaded, data, limit)
    how = None
    if finetune_steps:
        if folder is None or isinstance(data, ImageDataset):
            raise ValueError("fine-finetune_job needs a run folder, and a data set by name or path")
        given: dict[str, Any] = {"images": evaluation_data(loaded, data, limit), "tested": len(images.test)}
        words, out = (f"steps={finetune_steps}", *overrides), folder.path / "lowdata"
        how = finetune_job(folder.path, words, **given, out=out, device=devices.select_device(device))
    protocol = Protocol(strengths=L2_GRID, weaker=())
    precision = precision or loaded.recipe.train.precision
    count = len(images.train) + len(images.validation) + len(images.test)
    done = counter(progress, count)
    settings: dict[str, Any] = {"precision": precision, "protocol": protocol}
    results = probe_low_data(
        loaded, images, question, **settings, progress=lambda fraction: done(round(fraction * count))
    )
    facts: dict[str, Any] = {"data": images.name, "limit": limit, "seed": loaded.recipe.train.seed}
    facts["subsets"] = subsets
    if how:
        watch = Watch() if training_progress is None else Watch(partial(training_progress, how.recipe))
        results["fine-tuned"] = finetune_low_data(how, question, watch)
        facts |= {"finetune": finetune_steps, "settings": tuple(overrides)}
    path = None
    if folder is not None:
        mark = settings_hash({**facts, "labels": question.labels})
        name = f"lowdata-{loaded.step:08d}-{images.name}-{mark}.json"
        values = {"kind": "lowdata", "step": loaded.step, **facts, "results": _summary(results)}
        path = _save(folder.path / "lowdata" / name, values)
    warnings = leakage_warning(loaded.recipe.data, data)
    return LowDataOutput(results, images.name, loaded.step, warnings, path)


def verify(
    run: str | os.PathLike[str],
    *,
    data: DataLike | None = None,
    limit: int | None = None,
    precision: Precision = "fp32",
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> VerifyOutput:
    """Check the hash of every file of the newest checkpoint, and compute its test loss beside the published
    one, if there is one for this network and palette.

    `run` may also be a checkpoint folder. The result is saved in the run's `probes` folder. Raises ValueError
    for a damaged file, or for images without a test split.
    """
    folder = newest(Path(run))
    files = checkpoint.verify_files(folder)
    loaded = load_network(folder, device)
    images = evaluation_images(loaded, data, limit)
    test = images.test
    if not len(test):
        raise ValueError(f"data set '{images.name}' has no test images")
    task, done = PretrainTask(loaded.network), counter(progress, len(test))
    nats = evaluate_split(task, test, seed=seed, precision=precision, progress=done)["loss_nats"]
    codec, categorical = loaded.network.codec, loaded.recipe.model.head.categorical
    claim = find_claim(TEST_LOSSES, loaded.recipe, codec)
    settings = {"data": images.name, "images": len(test), "precision": precision, "seed": seed}
    published = claim and {"nats": claim.value, "source": claim.source, "step": claim.step}
    values: dict[str, Any] = {
        "recipe": loaded.recipe.name,
        "step": loaded.step,
        "imported": loaded.records.get("imported", {}).get("imported"),
        "palette": codec.fingerprint(),
        "palette_is_openais": codec.fingerprint() == OPENAI_FINGERPRINT,
        "loss_nats": nats,
        "uniform_nats": math.log(codec.vocab_size) if categorical else None,
    }
    saved = {"checkpoint": str(folder), "files": files, **values, "published": published, **settings}
    path = None
    if folder != Path(run):
        name = f"verify-{loaded.step:08d}-{images.name}-{settings_hash(settings)}.json"
        path = _save(RunFolder.open(Path(run)).probes / name, {"kind": "verification", **saved})
    about: dict[str, Any] = {"data": images.name, "images": len(test), "path": path}
    return VerifyOutput(checkpoint=folder, files=files, published=claim, **values, **about)


def _probe(
    loaded: Loaded, images: ImageDataset, protocol: Protocol, precision: Precision, progress: Progress | None
) -> ProbeReport:
    """Run the probe; `progress` counts the images read by the trained and the untrained network."""
    count = len(images.train) + len(images.validation) + max(1, protocol.masks) * len(images.test)
    before = {"trained": 0, "untrained": count}
    done = counter(progress, 2 * count)
    return evidence(
        loaded,
        images,
        precision=precision,
        protocol=protocol,
        progress=lambda whose, read: done(before[whose] + read) if whose in before else None,
        note=logger.info,
    )


def _method(name: MethodName, iterations: int | None) -> Method:
    if name not in METHODS:
        raise ValueError(f"method is {name!r}; allowed: {', '.join(METHODS)}")
    method = METHODS[name]
    if iterations is None:
        return method
    if not isinstance(method, SgdProbe):
        raise ValueError(f"iterations is {iterations}, but method {name} has none; only sgd has")
    return replace(method, iterations=iterations)


def _layers(layer: int | None, concat: int) -> Layers:
    if concat not in (0, CONCAT):
        raise ValueError(f"concat is {concat}; allowed: 0, {CONCAT}")
    if layer is not None and concat:
        raise ValueError("layer probes one layer and concat several; give one of the two")
    if layer is not None:
        return layer
    return "best5" if concat else "all"


def _summary(results: dict[str, list[Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return every number, with mean and standard deviation over the subsets."""
    return {
        method: [{**asdict(each), "mean": each.mean, "deviation": each.deviation} for each in found]
        for method, found in results.items()
    }


def _save(path: Path, values: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    write_json(path, with_provenance(values))
    return path
