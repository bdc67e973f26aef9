"""`isopix low-data`: few-label test error of a probe and of fine-tuning."""

from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.core.choices import Count, Pool, Range, Selection
from isopix.core.verb import verb
from isopix.probing.results import LowDataResult
from isopix.verbs.options import DeviceLike, Limit, OtherLabeled, Precision, RunLike, Settings

Labels = Annotated[
    list[int | str] | None,
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
    labels: Labels = None,
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
    from isopix.data.measurement import majority_baseline
    from isopix.pretrained.images import evaluation_images, labels_warning, leakage_warning
    from isopix.pretrained.run import default_precision, open_run
    from isopix.probing.config import ProbeConfig
    from isopix.probing.low_data import LowDataProtocol, default_labels, low_data_method, probe_low_data
    from isopix.runs.low_data import finetune_low_data

    if settings and not finetune_steps:
        raise ValueError(f"'{settings[0]}' is a fine-tuning setting; it needs finetune_steps above 0")
    probing = low_data_method(method)
    with open_run(run, device, writes="low-data") as (folder, model):
        loaded, chosen = model.loaded, precision or default_precision(run, model)
        images = evaluation_images(loaded, data, limit)
        protocol = LowDataProtocol(tuple(labels or default_labels(images)), subsets, select)
        config = ProbeConfig(method=method, layer=layer, pool=pool or model.pool)
        fixed = () if select == "validation" else ("patience=null",)
        words = (f"steps={finetune_steps}", *settings, *fixed)
        given = (data, limit, len(images.test))
        start = _finetune_start(loaded, folder, words, given) if finetune_steps else None
        sources = loaded.feature_sources(images, config, chosen)
        seed, where = loaded.recipe.data.seed, loaded.network.device
        results = probe_low_data(sources, images, protocol, probing, config, seed=seed, device=where)
    if start and folder:
        results["fine-tuned"] = finetune_low_data(start, protocol, folder.low_data, where)
    selection, baselines = _selection(select, len(images.validation)), majority_baseline(images)
    measurement = replace(loaded.measure(images, "test"), selection=selection, baselines=baselines)
    result = LowDataResult(
        data=images.name,
        step=loaded.step,
        precision=chosen,
        select=select,
        pool=str(config.pool),
        method=to_dict(probing),
        results=results,
        published=_published(images.name),
        measurement=measurement,
        warnings=(*leakage_warning(loaded.recipe.data, data), *labels_warning(loaded), *measurement.warnings),
    )
    return result if folder is None else result.saved(result.named(folder.low_data, loaded.step, images.name))


def _finetune_start(
    loaded: Any, folder: Any, words: tuple[str, ...], given: tuple[Any, int | None, int]
) -> Any:
    """Return what is fine-tuned on each subset; `given` are data, limit and number of test images."""
    from isopix.data.dataset import ImageDataset
    from isopix.pretrained.images import evaluation_data
    from isopix.runs.low_data import prepare_low_data

    data, limit, num_test_images = given
    if folder is None or isinstance(data, ImageDataset):
        raise ValueError("fine-tuning needs a run folder, and a dataset by name or path")
    images = evaluation_data(loaded, data, limit)
    return prepare_low_data(folder.path, words, images=images, num_test_images=num_test_images)


def _published(data: str) -> dict[str, Any]:
    """Return the published test errors on a dataset by method."""
    from isopix.recipes.published import LOW_DATA

    return {each.method: each.errors for each in LOW_DATA} if data == "cifar10" else {}


def _selection(select: Selection, count: int) -> str:
    """Return which images chose layer and L2 penalty, of `count` validation images."""
    if select == "validation":
        return f"layer and L2 penalty chosen on {count:,} validation images"
    return "layer and L2 penalty chosen by cross-validation within the labeled images"
