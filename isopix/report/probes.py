"""Probes side by side: how each was made, in words, and what keeps several from being compared."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from isopix.probe.results import TITLES
from isopix.report.load_run import EVERY, PAPER, Gathered

Values = Mapping[str, Any]

# setting of the protocol: several of it; seed and resamples move a score within its interval
SETTINGS = {
    "method": "methods",
    "masks": "numbers of masks",
    "stream": "streams",
    "pool": "pools",
    "reading": "readings",
    "strengths": "grids of strengths",
    "weaker": "weaker strengths",
}

# what validation chooses of a layer
CHOSEN = {"strength": "strength", "rate": "rate", "neighbours": "number of neighbours"}
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
    """How the network was read, and what told the classes."""
    protocol = probe["protocol"]
    settings = ", ".join(f"{key} {protocol[key]}" for key in READ)
    return f"{settings}{masks(probe)}; {method(probe)}, fitted to training images"


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


def folded(probe: Values) -> str:
    """A sentence about the layer that was fitted to validation too; empty where none was."""
    score, images = probe["folded"], probe["network"]["images"]
    if score is None:
        return ""
    learnt = images["train"] + images["validation"]
    chosen = next(
        f" at the {name} {score[key]:g}" for key, name in CHOSEN.items() if score.get(key) is not None
    )
    return (
        f"With validation folded back, layer {score['layer']}, fitted{chosen} to all {learnt:,} training and "
        f"validation images, tells the class of {100 * score['test']:.1f}\u00a0% of test images "
        f"({100 * score['low']:.1f} to {100 * score['high']:.1f}\u00a0%)."
    )


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
