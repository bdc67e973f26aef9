"""`isopix probe`: linear probes of every layer, of all labels or of few."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from isopix.core import ranks
from isopix.core.config import changed
from isopix.core.verb import Flat, verb
from isopix.probing.config import FewLabelsConfig, ProbeConfig
from isopix.probing.results import LowDataResult, ProbeResult
from isopix.verbs.options import DeviceLike, Limit, OtherLabeled, Precision, RunLike, Settings

if TYPE_CHECKING:
    from isopix.core.device import Precision as Chosen
    from isopix.data.dataset import ImageDataset
    from isopix.probing.probe import ProbeMethod
    from isopix.runs.load import LoadedRun

DEFAULT_PROBE, DEFAULT_FEW = ProbeConfig(), FewLabelsConfig()
OF_ALL_LABELS = ("concat", "mask_ensemble", "refit_on_validation", "seed")


@verb(parallel=True)
def probe(
    run: RunLike,
    *settings: Settings,
    data: OtherLabeled = None,
    limit: Limit = None,
    config: Flat[ProbeConfig] = DEFAULT_PROBE,
    few: Flat[FewLabelsConfig] = DEFAULT_FEW,
    precision: Precision = None,
    device: DeviceLike = "auto",
) -> ProbeResult | LowDataResult:
    """Linear-probe every layer on pooled features, with untrained, shuffled-label and raw-pixel baselines.

    The layer and the L2 penalty (or learning rate, or number of neighbors) are chosen on the validation
    split; accuracy is reported on the test split. Settings are for the method (--method knn temperature=0.1)
    or the data (data.label_column=species). Results go to the run's `probes` folder.

    --labels reports the test error for each number of labels: mean and standard deviation over random
    balanced subsets of the training images. --finetune-steps adds the error of fine-tuning on every subset;
    settings are then those of fine-tuning. Results go to the run's `low-data` folder.

    Example: isopix probe runs/photos --labels 4 25
    """
    from isopix.pretrained.images import evaluation_data, evaluation_images, leakage_warning
    from isopix.pretrained.run import default_precision, open_run
    from isopix.probing.probe import probe_method
    from isopix.runs.series import finetune_low_data, prepare_low_data
    from isopix.train.parallel import process_group

    _check_options(config, few)
    of_data = [each for each in settings if each.startswith("data.") and not few.finetune_steps]
    own = [each for each in settings if each not in of_data and not few.finetune_steps]
    method, writes = probe_method(config.method, own), "low-data" if few.labels else "probes"
    with process_group(device) as where, open_run(run, str(where), writes=writes) as (folder, model):
        loaded, chosen, start = model.loaded, precision or default_precision(run, model), None
        config = replace(config, pool=config.pool or method.pool or model.pool)
        if method.pool not in (None, config.pool):
            raise ValueError(f"method {config.method} needs pool={method.pool}, not {config.pool}")
        images = evaluation_images(loaded, data, limit, of_data).labeled("probe")
        if few.finetune_steps:
            if folder is None:
                raise ValueError("fine-tuning needs a run folder")
            source = evaluation_data(loaded, data, limit)
            start = prepare_low_data(folder, settings, few, source, len(images.test))
        found: ProbeResult | LowDataResult
        if few.labels:
            found = _with_few_labels(loaded, images, config, few, method, chosen)
        else:
            found = _with_all_labels(loaded, images, config, method, chosen)
        if start and folder and isinstance(found, LowDataResult):
            tuned = finetune_low_data(start, few, folder.low_data, loaded.network.device)
            found = replace(found, results={**found.results, "fine-tuned": tuned})
    found = replace(found, warnings=(*found.warnings, *leakage_warning(loaded.recipe.data, data)))
    if folder is None:
        return found
    place = folder.low_data if few.labels else folder.probes
    return found.saved(found.named(place, loaded.step, images.name))


def _check_options(config: ProbeConfig, few: FewLabelsConfig) -> None:
    if few.labels and (wrong := [name for name in changed(config) if name in OF_ALL_LABELS]):
        raise ValueError(f"{wrong[0]} does not go with labels")
    if not few.labels and (wrong := changed(few)):
        raise ValueError(f"{wrong[0]} needs labels")
    if few.labels and ranks.num_ranks() > 1:
        raise ValueError("labels is for a single process")


def _with_all_labels(
    loaded: "LoadedRun",
    images: "ImageDataset",
    config: ProbeConfig,
    method: "ProbeMethod",
    precision: "Chosen",
) -> ProbeResult:
    from isopix.core.config import to_dict
    from isopix.probing.baselines import probe_with_baselines
    from isopix.probing.features import read_splits
    from isopix.probing.probe import probe_measurement

    images.require_validation("a layer")
    readers = {
        name: partial(read_splits, name, source, images, keep=name == "untrained", stream=method.streams)
        for name, source in loaded.feature_sources(images, config, precision).items()
    }
    trained, device = readers.pop("trained"), loaded.network.device
    found = probe_with_baselines(trained, readers, method, config, device=device)
    result = ProbeResult(
        data=images.name,
        step=loaded.step,
        precision=precision,
        config=config,
        method=to_dict(method),
        label=method.label(),
        **found._asdict(),
    )
    measured = loaded.measure(images, "test")
    measurement = probe_measurement(measured, images, method, config, result.baseline_accuracies)
    return replace(result, measurement=measurement, warnings=(*found.network.warnings, *measurement.warnings))


def _with_few_labels(
    loaded: "LoadedRun",
    images: "ImageDataset",
    config: ProbeConfig,
    few: FewLabelsConfig,
    method: "ProbeMethod",
    precision: "Chosen",
) -> LowDataResult:
    from isopix.core.config import to_dict
    from isopix.data.measurement import majority_baseline
    from isopix.pretrained.images import labels_warning
    from isopix.probing.low_data import probe_low_data, without_small_penalties
    from isopix.recipes.published import LOW_DATA

    method, seed = without_small_penalties(method), loaded.recipe.data.seed
    sources = loaded.feature_sources(images, config, precision)
    results = probe_low_data(sources, images, few, method, seed=seed, device=loaded.network.device)
    selection = f"layer and L2 penalty chosen on {len(images.validation):,} validation images"
    measured, baselines = loaded.measure(images, "test"), majority_baseline(images)
    measurement = replace(measured, selection=selection, baselines=baselines)
    return LowDataResult(
        data=images.name,
        step=loaded.step,
        precision=precision,
        pool=str(config.pool),
        method=to_dict(method),
        results=results,
        published=LOW_DATA if images.name == "cifar10" else {},
        measurement=measurement,
        warnings=(*labels_warning(loaded), *measurement.warnings),
    )
