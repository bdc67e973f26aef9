"""Probes side by side: how each was made, in words, and what keeps several from being compared."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from isopix.core.config import from_dict
from isopix.probe.config import ProbeConfig
from isopix.probe.results import SELECTED_LABELS
from isopix.report.load_run import PAPER, Gathered

Values = Mapping[str, Any]

# setting of the config: several of it; seed and num_resamples move a score within its interval
SETTINGS = {
    "method": "methods",
    "mask_ensemble": "numbers of masks",
    "features": "features",
    "pool": "pools",
    "start_token": "start tokens",
    "l2_grid": "grids of L2 penalties",
    "l2_extra": "extra L2 penalties",
}

READ = ("features", "pool", "start_token")


def speaking(runs: Mapping[str, Gathered]) -> dict[str, Values]:
    """The probe that speaks for each run that has one."""
    return {name: run.probe for name, run in runs.items() if run.probe is not None}


def differences(probes: Sequence[Values]) -> list[str]:
    """What probes do not share and would have to, for their scores to be compared; empty where nothing is."""
    found = ["images"] if _differ([_images(probe, probes) for probe in probes]) else []
    configs = [probe["config"] for probe in probes]
    if _differ([config["layer"] for config in configs]):
        found.append("layers to choose from")
    return found + [
        name for key, name in SETTINGS.items() if _differ([config.get(key) for config in configs])
    ]


def how(probe: Values) -> str:
    """How the network was read, and what told the classes."""
    settings = ", ".join(setting(key, probe["config"]) for key in READ)
    return f"{settings}{masks(probe)}; {method(probe)}, fitted to training images"


def method(probe: Values) -> str:
    """What tells the classes: `ridge regression`."""
    return from_dict(ProbeConfig, {"method": probe["config"]["method"]}).method.label()


def masks(probe: Values) -> str:
    """`, majority vote over 5 masks`; nothing where nothing was hidden."""
    count = probe["config"]["mask_ensemble"]
    return (
        "" if not count else ", one mask per image" if count == 1 else f", majority vote over {count} masks"
    )


def concatenated(record: Values) -> str:
    """Return `layers 1–5 concatenated`, where several were probed as one."""
    layers = record["concat"]["layers"]
    return f"layers {layers[0]}–{layers[-1]} concatenated"


def refit(probe: Values) -> str:
    """A sentence about the layer that was refit on train + validation; empty where none was."""
    score, images = probe["refit"], probe["network"]["num_images"]
    if score is None:
        return ""
    learnt = images["train"] + images["validation"]
    chosen = next(
        f" at the {name} {score[key]:g}"
        for key, name in SELECTED_LABELS.items()
        if score.get(key) is not None
    )
    low, high = score["interval"]
    return (
        f"Refit on all {learnt:,} training and validation images{chosen}, layer {score['layer']} has a test "
        f"accuracy of {100 * score['test_accuracy']:.1f}\u00a0% ({100 * low:.1f} to {100 * high:.1f}\u00a0%)."
    )


def aside(probe: Values) -> str:
    """What a headline must add of a probe that is not as the paper's: ` (pool max)`; else nothing."""
    config = probe["config"]
    own = [setting(key, config) for key in READ if config[key] != PAPER[key]]
    own += [method(probe)] if config["method"] != PAPER["method"] else []
    own += [masks(probe).removeprefix(", ")] if config["mask_ensemble"] else []
    own += [] if config["layer"] is None else ["that layer alone"]
    return f" ({', '.join(own)})" if own else ""


def setting(key: str, config: Values) -> str:
    """Return `pool mean`, `no start token`."""
    if key == "start_token":
        return "start token" if config[key] else "no start token"
    return f"{key} {config[key]}"


def _images(probe: Values, probes: Sequence[Values]) -> object:
    """Which images; by their hash where all probes have one, else by name, limit and number."""
    if all(each.get("images_digest") for each in probes):
        return probe["images_digest"]
    return [probe["data"], probe["limit"], probe["network"]["num_images"]]


def _differ(values: Sequence[object]) -> bool:
    return len({json.dumps(value, sort_keys=True) for value in values}) > 1
