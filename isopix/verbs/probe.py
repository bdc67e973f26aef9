"""`isopix probe` and `isopix low-data`: linear probes of every layer, and test error with few labels."""

from dataclasses import replace
from functools import partial
from os import PathLike

from isopix.core.verb import Flat, verb
from isopix.probing.config import LowDataConfig, ProbeConfig
from isopix.probing.results import LowDataResult, ProbeResult
from isopix.verbs.options import DeviceLike, Limit, OtherLabeled, Precision, RunLike, Settings

DEFAULT_PROBE = ProbeConfig()


@verb(parallel=True)
def probe(
    run: RunLike,
    *settings: Settings,
    data: OtherLabeled = None,
    limit: Limit = None,
    config: Flat[ProbeConfig] = DEFAULT_PROBE,
    precision: Precision = None,
    device: DeviceLike = "auto",
) -> ProbeResult:
    """Linear-probe every layer on pooled features, with untrained, shuffled-label and raw-pixel baselines.

    The layer and the L2 penalty (or learning rate, or number of neighbors) are chosen on the validation
    split; accuracy is reported on the test split. Settings are the method's (--method knn temperature=0.1)
    or the data's (data.label_column=species). Results go to the run's `probes` folder.

    Example: isopix probe runs/photos --limit 5000
    """
    from isopix.core.config import to_dict
    from isopix.pretrained.images import evaluation_images, leakage_warning
    from isopix.pretrained.run import default_precision, open_run
    from isopix.probing.baselines import probe_with_baselines
    from isopix.probing.features import read_splits
    from isopix.probing.probe import probe_measurement, probe_method
    from isopix.train.parallel import process_group

    of_data = [each for each in settings if each.startswith("data.")]
    method = probe_method(config.method, [each for each in settings if each not in of_data])
    with process_group(device) as where, open_run(run, str(where), writes="probes") as (folder, model):
        loaded, chosen = model.loaded, precision or default_precision(run, model)
        config = replace(config, pool=config.pool or model.pool)
        images = evaluation_images(loaded, data, limit, of_data)
        images.require_labels("probe")
        images.require_validation("a layer")
        readers = {
            name: partial(read_splits, name, source, images, keep=name == "untrained", stream=method.streams)
            for name, source in loaded.feature_sources(images, config, chosen).items()
        }
        trained, own_device = readers.pop("trained"), loaded.network.device
        found = probe_with_baselines(trained, readers, method, config, device=own_device)
    result = ProbeResult(
        data=images.name,
        step=loaded.step,
        precision=chosen,
        config=config,
        method=to_dict(method),
        label=method.label(),
        **found._asdict(),
    )
    measured = loaded.measure(images, "test")
    measurement = probe_measurement(measured, images, method, config, result.baseline_accuracies)
    leaks = leakage_warning(loaded.recipe.data, data)
    warnings = (*found.network.warnings, *measurement.warnings, *leaks)
    result = replace(result, measurement=measurement, warnings=warnings)
    return result if folder is None else result.saved(result.named(folder.probes, loaded.step, images.name))


DEFAULT_LOW_DATA = LowDataConfig()


@verb()
def low_data(
    run: RunLike,
    *settings: Settings,
    data: OtherLabeled = None,
    limit: Limit = None,
    config: Flat[LowDataConfig] = DEFAULT_LOW_DATA,
    precision: Precision = None,
    device: DeviceLike = "auto",
) -> LowDataResult:
    """Measure test error with few labels: mean and standard deviation over random balanced subsets.

    Probe of the layer chosen on the validation split, or by cross-validation within the labeled images, with
    an untrained network, raw pixels and their principal components as baselines; with --finetune-steps,
    fine-tuning too. Results go to the run's `low-data` folder.

    Example: isopix low-data runs/photos --labels 4 25 400 --subsets 5
    """
    from isopix.core.config import to_dict
    from isopix.pretrained.images import evaluation_data, evaluation_images, labels_warning, leakage_warning
    from isopix.pretrained.run import default_precision, open_run
    from isopix.probing.low_data import default_labels, low_data_method, probe_low_data
    from isopix.recipes.published import LOW_DATA
    from isopix.runs.series import finetune_low_data, low_data_measurement, prepare_low_data

    if settings and not config.finetune_steps:
        raise ValueError(f"'{settings[0]}' is a fine-tuning setting; it needs finetune_steps above 0")
    method = low_data_method(config.method)
    with open_run(run, device, writes="low-data") as (folder, model):
        loaded, chosen = model.loaded, precision or default_precision(run, model)
        images = evaluation_images(loaded, data, limit)
        labels, pool = config.labels or default_labels(images), config.pool or model.pool
        config = replace(config, labels=labels, pool=pool)
        start = None
        if config.finetune_steps:
            if folder is None or not isinstance(data, str | PathLike | None):
                raise ValueError("fine-tuning needs a run folder, and a dataset by name or path")
            source = evaluation_data(loaded, data, limit)
            start = prepare_low_data(folder, settings, config, source, len(images.test))
        read = ProbeConfig(layer=config.layer, pool=pool)
        sources, seed = loaded.feature_sources(images, read, chosen), loaded.recipe.data.seed
        results = probe_low_data(sources, images, config, method, seed=seed, device=loaded.network.device)
    if start and folder:
        results["fine-tuned"] = finetune_low_data(start, config, folder.low_data, model.network.device)
    measurement = low_data_measurement(loaded, images, config)
    result = LowDataResult(
        data=images.name,
        step=loaded.step,
        precision=chosen,
        select=config.select,
        pool=str(pool),
        method=to_dict(method),
        results=results,
        published=LOW_DATA if images.name == "cifar10" else {},
        measurement=measurement,
        warnings=(*leakage_warning(loaded.recipe.data, data), *labels_warning(loaded), *measurement.warnings),
    )
    return result if folder is None else result.saved(result.named(folder.low_data, loaded.step, images.name))
