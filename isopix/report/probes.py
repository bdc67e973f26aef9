"""Probes side by side: how each was made, in words, and what keeps several from being compared."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from isopix.report.gather import PAPER, Gathered

Values = Mapping[str, Any]

# setting of the protocol: several of it; seed and resamples move a score within its interval
SETTINGS = {
    "stream": "streams",
    "pool": "pools",
    "reading": "readings",
    "refit": "splits to fit to",
    "strengths": "grids of strengths",
    "weaker": "weaker strengths",
}


def speaking(runs: Mapping[str, Gathered]) -> dict[str, Values]:
    """The probe that speaks for each run that has one."""
    return {name: run.probe for name, run in runs.items() if run.probe is not None}


def differences(probes: Sequence[Values]) -> list[str]:
    """What probes do not share and would have to, for their scores to be compared; empty where nothing is."""
    found = ["images"] if _differ([_images(probe, probes) for probe in probes]) else []
    protocols = [probe["protocol"] for probe in probes]
    return found + [
        name for key, name in SETTINGS.items() if _differ([protocol.get(key) for protocol in protocols])
    ]


def how(probe: Values) -> str:
    """How the network was read and what the judged classifier learnt from."""
    settings = ", ".join(f"{key} {probe['protocol'][key]}" for key in PAPER)
    fitted = "training and validation" if probe["protocol"]["refit"] else "training"
    return f"{settings}; fitted to {fitted} images"


def aside(probe: Values) -> str:
    """What a headline must add of a probe that does not read as the paper: ` (stream h)`; else nothing."""
    own = [f"{key} {probe['protocol'][key]}" for key in PAPER if probe["protocol"][key] != PAPER[key]]
    return f" ({', '.join(own)})" if own else ""


def _images(probe: Values, probes: Sequence[Values]) -> object:
    """Which images; by their hash where all probes have one, else by name, limit and number."""
    if all(each.get("images_digest") for each in probes):
        return probe["images_digest"]
    return [probe["data"], probe["limit"], probe["network"]["images"]]


def _differ(values: Sequence[object]) -> bool:
    return len({json.dumps(value, sort_keys=True) for value in values}) > 1
