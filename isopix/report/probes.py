"""Probes side by side: how each was made, in words, and what keeps several from being compared."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from isopix.report.gather import EVERY, PAPER, Gathered
from isopix.transfer.evidence import TITLES

Values = Mapping[str, Any]

# setting of the protocol: several of it; seed and resamples move a score within its interval
SETTINGS = {
    "method": "methods",
    "masks": "numbers of masks",
    "stream": "streams",
    "pool": "pools",
    "reading": "readings",
    "refit": "splits to fit to",
    "strengths": "grids of strengths",
    "weaker": "weaker strengths",
}

READ = ("stream", "pool", "reading")


def speaking(runs: Mapping[str, Gathered]) -> dict[str, Values]:
    """The probe that speaks for each run that has one."""
    return {name: run.probe for name, run in runs.items() if run.probe is not None}


def differences(probes: Sequence[Values]) -> list[str]:
    """What probes do not share and would have to, for their scores to be compared; empty where nothing is."""
    found = ["images"] if _differ([_images(probe, probes) for probe in probes]) else []
    protocols = [probe["protocol"] for probe in probes]
    if _differ([protocol["layers"] in EVERY or protocol["layers"] for protocol in protocols]):
        found.append("layers to choose from")
    return found + [
        name for key, name in SETTINGS.items() if _differ([protocol.get(key) for protocol in protocols])
    ]


def how(probe: Values) -> str:
    """How the network was read, what told the classes, and what the judged classifier learnt from."""
    protocol = probe["protocol"]
    settings = ", ".join(f"{key} {protocol[key]}" for key in READ)
    fitted = "training and validation" if protocol["refit"] else "training"
    return f"{settings}{masks(probe)}; {method(probe)}, fitted to {fitted} images"


def method(probe: Values) -> str:
    """What tells the classes: `ridge regression`."""
    kind = probe["protocol"]["method"]["kind"]
    return TITLES.get(kind, kind)


def masks(probe: Values) -> str:
    """`, modal vote of 5 masks`; nothing where nothing was hidden."""
    count = probe["protocol"]["masks"]
    return "" if not count else ", one mask an image" if count == 1 else f", modal vote of {count} masks"


def joined(record: Values) -> str:
    """`layers 1–5 joined`, where several were probed as one."""
    layers = record["joined"]["layers"]
    return f"layers {layers[0]}–{layers[-1]} joined"


def aside(probe: Values) -> str:
    """What a headline must add of a probe that is not as the paper's: ` (stream h)`; else nothing."""
    protocol = probe["protocol"]
    own = [f"{key} {protocol[key]}" for key in READ if protocol[key] != PAPER[key]]
    own += [method(probe)] if protocol["method"] != PAPER["method"] else []
    own += [masks(probe).removeprefix(", ")] if protocol["masks"] else []
    own += [] if protocol["layers"] in EVERY else ["that layer alone"]
    return f" ({', '.join(own)})" if own else ""


def _images(probe: Values, probes: Sequence[Values]) -> object:
    """Which images; by their hash where all probes have one, else by name, limit and number."""
    if all(each.get("images_digest") for each in probes):
        return probe["images_digest"]
    return [probe["data"], probe["limit"], probe["network"]["images"]]


def _differ(values: Sequence[object]) -> bool:
    return len({json.dumps(value, sort_keys=True) for value in values}) > 1
