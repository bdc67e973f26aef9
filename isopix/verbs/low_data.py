"""`isopix low-data`: few-label test error of a probe and of fine-tuning."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from isopix.core.choices import Count, Pool, Range, Selection
from isopix.core.verb import verb
from isopix.probing.results import LowDataResult
from isopix.verbs.options import DeviceLike, Limit, OtherLabeled, Precision, RunLike, Settings

if TYPE_CHECKING:
    from isopix.data.dataset import ImageDataset
    from isopix.runs.load import LoadedRun
    from isopix.runs.low_data import FineTuneJob
    from isopix.storage.run_folder import RunFolder

Labels = Annotated[
    list[int | str],
    Parameter(
        consume_multiple=True,
        negative="",
        help="Labeled images per class, one or more numbers, or percentages as in 10%. "
        "Default: 4, 25 and 400, as far as the classes have them.",
    ),
]
Subsets = Annotated[Count, Parameter(help="Number of random subsets of each size.")]
Select = Annotated[
    Selection,
    Parameter(
        help="Images to choose layer, L2 penalty and step on; cross-validation: the labeled ones, and fixed "
        "steps."
    ),
]
MethodName = Annotated[
    str,
    Parameter(
        help="Classifier: lbfgs, sgd or adam (logistic regression), ridge (regression), or one of a plugin."
    ),
]
Layer = Annotated[Annotated[int, Range(low=0)] | None, Parameter(help="Probe this layer only.")]
Pooling = Annotated[
    Pool | None,
    Parameter(help="grid4: means of 4 x 4 cells; flatten: all; first: class token. Default: the recipe's."),
]
Steps = Annotated[
    Annotated[int, Range(low=0)],
    Parameter(help="Also fine-tune the run on every subset, for at most this many steps."),
]


@verb()
def low_data(
    run: RunLike,
    *settings: Settings,
    labels: Labels | None = None,
    subsets: Subsets = 5,
    method: MethodName = "lbfgs",
    layer: Layer = None,
    pool: Pooling = None,
    select: Select = "validation",
    data: OtherLabeled = None,
    limit: Limit = None,
    finetune_steps: Steps = 0,
    precision: Precision = None,
    device: DeviceLike = "auto",
) -> LowDataResult:
    """Measure test error with few labels: mean and standard deviation over random balanced subsets.

    Probe of the layer chosen on the validation split, or by cross-validation within the labeled images, with
    an untrained network, raw pixels and their principal components as baselines; with --finetune-steps,
    fine-tuning too, with these settings. Results go to the run's `low-data` folder.

    Example: isopix low-data runs/photos --labels 4 25 400 --subsets 5
    """

    from isopix.core.config import to_dict
    from isopix.pretrained.run import default_precision, evaluation_images, open_run
    from isopix.probing.config import ProbeConfig
    from isopix.probing.low_data import (
        LowDataProtocol,
        default_labels,
        low_data_method,
        probe_low_data,
    )
    from isopix.runs.low_data import finetune_low_data

    if settings and not finetune_steps:
        raise ValueError(f"'{settings[0]}' is a fine-tuning setting; it needs finetune_steps above 0")
    probing = low_data_method(method)
    with open_run(run, device, writes="low-data") as (folder, model):
        loaded, chosen = model.loaded, precision or default_precision(run, model)
        images = evaluation_images(loaded, data, limit)
        protocol = LowDataProtocol(tuple(labels or default_labels(images)), subsets, select)
        config = ProbeConfig(method=method, layer=layer, pool=pool or model.pool)
        job = None
        if finetune_steps:
            fixed = () if select == "validation" else ("patience=null",)
            words = (f"steps={finetune_steps}", *settings, *fixed)
            job = _finetune_job(folder, loaded, words, data, limit, len(images.test), device)
        sources = loaded.feature_sources(images, config, chosen)
        seed, where = loaded.recipe.data.seed, loaded.network.device
        results = probe_low_data(sources, images, protocol, probing, config, seed=seed, device=where)
    if job:
        results["fine-tuned"] = finetune_low_data(job, protocol)
    facts = {"precision": chosen, "select": select, "pool": config.pool, "method": to_dict(probing)}
    result = _result(loaded, images, data, {**facts, "results": results})
    return result if folder is None else result.saved(result.named(folder.low_data, loaded.step, images.name))


def _result(
    loaded: "LoadedRun", images: "ImageDataset", data: Any, facts: Mapping[str, Any]
) -> LowDataResult:
    from isopix.pretrained.run import labels_warning, leakage_warning
    from isopix.probing.low_data import low_data_measurement
    from isopix.recipes.published import LOW_DATA

    measurement = low_data_measurement(loaded.measure(images, "test"), images, facts["select"])
    own = (*leakage_warning(loaded.recipe.data, data), *labels_warning(loaded))
    return LowDataResult(
        data=images.name,
        step=loaded.step,
        published={each.method: each.errors for each in LOW_DATA} if images.name == "cifar10" else {},
        measurement=measurement,
        warnings=(*own, *measurement.warnings),
        **facts,
    )


def _finetune_job(
    folder: "RunFolder | None",
    loaded: "LoadedRun",
    settings: Sequence[str],
    data: Any,
    limit: int | None,
    num_test_images: int,
    device: Any,
) -> "FineTuneJob":
    from isopix.core.device import select_device
    from isopix.data.dataset import ImageDataset
    from isopix.pretrained.run import evaluation_data
    from isopix.runs.low_data import finetune_job

    if folder is None or isinstance(data, ImageDataset):
        raise ValueError("fine-tuning needs a run folder, and a dataset by name or path")
    return finetune_job(
        folder.path,
        settings,
        images=evaluation_data(loaded, data, limit),
        num_test_images=num_test_images,
        out=folder.low_data,
        device=select_device(device),
    )
