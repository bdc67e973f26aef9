"""`isopix probe`: linear-probe accuracy of every layer, with baselines."""

from dataclasses import replace
from functools import partial

from isopix.core.verb import Flat, verb
from isopix.probing.config import ProbeConfig
from isopix.probing.results import ProbeResult
from isopix.verbs.options import DeviceLike, Limit, OtherLabeled, Precision, RunLike, Settings

DEFAULT = ProbeConfig()


@verb(parallel=True)
def probe(
    run: RunLike,
    *settings: Settings,
    data: OtherLabeled = None,
    limit: Limit = None,
    config: Flat[ProbeConfig] = DEFAULT,
    precision: Precision = None,
    device: DeviceLike = "auto",
) -> ProbeResult:
    """Linear-probe every layer on pooled features, with untrained, shuffled-label and raw-pixel baselines.

    The layer and the L2 penalty (or learning rate, or number of neighbors) are chosen on the validation
    split; accuracy is reported on the test split. Settings are the method's: --method knn temperature=0.1.
    Results go to the run's `probes` folder.

    Example: isopix probe runs/photos --limit 5000
    """
    from isopix.core.config import to_dict
    from isopix.pretrained.images import evaluation_images, leakage_warning
    from isopix.pretrained.run import default_precision, open_run
    from isopix.probing.baselines import probe_with_baselines
    from isopix.probing.features import read_splits
    from isopix.probing.probe import probe_measurement, probe_method
    from isopix.train.parallel import process_group

    method = probe_method(config.method, settings)
    with process_group(device) as where, open_run(run, str(where), writes="probes") as (folder, model):
        loaded, chosen = model.loaded, precision or default_precision(run, model)
        config = replace(config, pool=config.pool or model.pool)
        images = evaluation_images(loaded, data, limit)
        images.require_labels("probe")
        images.require_validation("a layer")
        readers = {
            name: partial(read_splits, name, source, images, keep=name == "untrained", stream=method.streams)
            for name, source in loaded.feature_sources(images, config, chosen).items()
        }
        found = probe_with_baselines(
            readers.pop("trained"), readers, method, config, device=loaded.network.device
        )
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
