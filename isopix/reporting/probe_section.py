"""Linear probe by layer; how probes were made, and which of their settings keep them from being compared."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields

from isopix.data import measurement
from isopix.plots import curves, svg
from isopix.probing.config import ProbeConfig
from isopix.probing.results import ProbeResult
from isopix.reporting.run_record import DEFAULTS, RunRecord, SavedProbe
from isopix.reporting.section import (
    Chart,
    percent,
)

# They move a score within its interval, or not at all.
UNCOMPARED = {"seed", "num_resamples", "refit_on_validation", "concat"}
FEATURES: Mapping[str, Mapping[object, str]] = {
    "pool": {
        "mean": "mean-pooled",
        "max": "max-pooled",
        "last": "last position",
        "first": "class token",
        "grid2": "means of 2 × 2 cells",
        "grid4": "means of 4 × 4 cells",
        "flatten": "all positions",
    },
    "features": {"normed": "after the next block's norm", "residual": "residual stream"},
    "start_token": {True: "", False: "without start token"},
}


def primary_probes(runs: Mapping[str, RunRecord]) -> dict[str, SavedProbe]:
    """Return the primary probe of each run that has one."""
    return {name: run.probe for name, run in runs.items() if run.probe is not None}


def probe_differences(probes: Sequence[SavedProbe]) -> list[str]:
    """Return the settings in which probes differ and which their scores depend on."""
    configs = [probe.report.config for probe in probes]
    measured = [probe.report.measurement for probe in probes]
    found = measurement.differences(measured)
    names = [each.name for each in fields(ProbeConfig) if each.name not in UNCOMPARED]
    found += [name for name in names if _differ([getattr(each, name) for each in configs])]
    return found + ["settings of the method"] * _differ([dict(probe.report.method) for probe in probes])


def nondefault_settings(probe: SavedProbe) -> str:
    """Return the settings in which a probe differs from iGPT's, in parentheses; empty without any."""
    config = probe.report.config
    chosen = {name: getattr(config, name) for name in FEATURES}
    usual = {"pool": "mean", "features": DEFAULTS.features, "start_token": DEFAULTS.start_token}
    found = [FEATURES[name][value] for name, value in chosen.items() if value != usual[name]]
    found += [] if probe.has_default_method else [probe.report.label]
    found += [masks(config)] if config.mask_ensemble else []
    found += [] if config.layer is None else [f"layer {config.layer} only"]
    return f" ({', '.join(found)})" if found else ""


def probe_settings(report: ProbeResult) -> str:
    """Return the features and the classifier."""
    config = report.config
    read = [words for name, values in FEATURES.items() if (words := values[getattr(config, name)])]
    return f"{', '.join([*read, *([masks(config)] if config.mask_ensemble else [])])}; {report.label}"


def masks(config: ProbeConfig) -> str:
    """Return how many masks each test image was read under."""
    count = config.mask_ensemble
    return "one mask per image" if count == 1 else f"majority vote of {count} masks"


def accuracy_chart(probes: Mapping[str, SavedProbe], name: str, caption: str) -> Chart:
    """Return test accuracy by layer."""
    found = [
        f"{run}: best layer {score.layer}, {percent(score.test_accuracy)}"
        for run, score in ((run, probe.report.network.best) for run, probe in probes.items())
    ]
    drawn = curves.plot_probe_accuracy({run: probe.report for run, probe in probes.items()})
    return Chart(
        svg.svg_markup(
            drawn,
            {run: json.loads(probe.report.json()) for run, probe in probes.items()},
            name=name,
            alt=f"Test accuracy by layer. {'; '.join(found)}.",
        ),
        caption,
    )


def _differ(values: Sequence[object]) -> bool:
    return len({json.dumps(value, sort_keys=True, default=repr) for value in values}) > 1
