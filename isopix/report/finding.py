"""What runs have found, in one honest sentence: its numbers, and every control that does better."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from isopix.report import words
from isopix.report.gather import Gathered

Values = Mapping[str, Any]

HEADLINE_CONTROLS = ("untrained", "raw pixels")  # the tables have all


class HeldOut(NamedTuple):
    """The newest loss on images that were not trained on."""

    nats: float
    images: int
    split: str

    @property
    def bits(self) -> float:
        return self.nats / math.log(2)


def held_out(run: Gathered) -> HeldOut | None:
    """The test loss, or else the newest validation loss."""
    for split in ("test", "validation"):
        found = [each for each in run.records if each["kind"] == "evaluation" and each.get("split") == split]
        if found:
            return HeldOut(float(found[-1]["loss_nats"]), int(found[-1]["images"]), split)
    return None


def best(record: Values) -> Values:
    """The score of the layer that validation chose."""
    return record["layers"][record["best"]]


def levels(run: Gathered) -> int | None:
    """K: the number of colours in the palette, or else in the recipe; None where neither is known."""
    if run.weights is not None and run.weights.colours is not None:
        return len(run.weights.colours)
    codec = run.recipe.get("codec")
    colours = codec.get("colours") if isinstance(codec, Mapping) else None
    return colours if isinstance(colours, int) and colours > 0 else None


def steps(run: Gathered) -> int:
    """How many steps the run has made."""
    return max((each["step"] for each in run.records), default=run.weights.step if run.weights else 0)


def seen(run: Gathered) -> int:
    """How many images the run was shown, one shown twice counted twice."""
    return max((int(each["images"]) for each in run.records if each["kind"] == "train"), default=0)


def headline(runs: Mapping[str, Gathered]) -> str:
    """One sentence about runs by their names, with the controls beside them."""
    if len(runs) == 1:
        return _of_one(*runs.values())
    probed = {name: run.probes[-1] for name, run in runs.items() if run.probes}
    if not probed:
        return f"{len(runs)} runs, none of them probed yet."
    if len({probe.get("data") for probe in probed.values()}) > 1:
        return f"{len(runs)} runs, probed on different images, which are not to be compared."
    shares = [f"{percent(best(probe['network'])['test'])} ({name})" for name, probe in probed.items()]
    return f"The best layers tell the class of {listed(shares)} of test images{_beside(probed)}."


def clearly(one: Values, other: Values) -> bool:
    """Whether one score is higher by more than the halves of both intervals, added as squares.

    That is a test at 95 % of independent scores; of scores on the same images, as ours, a stricter one.
    """
    return one["test"] - other["test"] > math.hypot(one["test"] - one["low"], other["high"] - other["test"])


def percent(share: float) -> str:
    """A share of images: `41.2 %`, with a space that does not break."""
    return f"{100 * share:.1f}\u00a0%"


def listed(texts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)


def _of_one(run: Gathered) -> str:
    loss, graded = held_out(run), words.graded(run.recipe)
    start = f"{words.architecture(run.recipe)}, shown {seen(run):,} images"
    if run.probes:
        own = best(run.probes[-1]["network"])
        trained = f" and trained to {loss.nats:.2f} nats a {graded}" if loss else ""
        told = f"tell the class of {percent(own['test'])} of test images at layer {own['layer']}"
        return f"{start}{trained}, {told}{_beside({'': run.probes[-1]})}."
    if loss:
        count = levels(run)
        chance = f"; untrained {math.log(count):.2f}" if count else ""
        return f"{start}, name every {graded} of {loss.split} images at {loss.nats:.2f} nats{chance}."
    return f"{start}, have not been measured yet."


def _beside(probed: Mapping[str, Values]) -> str:
    """`; untrained 27.9 %; raw pixels do better, 47.1 %`."""
    return "".join(f"; {text}" for name in HEADLINE_CONTROLS if (text := _control(name, probed)))


def _control(control: str, probed: Mapping[str, Values]) -> str:
    """A control's accuracy, and which networks it clearly beats or is not clearly different from."""
    pairs = {
        name: (best(probe["network"]), best(probe["controls"][control]))
        for name, probe in probed.items()
        if control in probe["controls"]
    }
    if not pairs:
        return ""
    numbers = listed(list(dict.fromkeys(percent(other["test"]) for _, other in pairs.values())))
    better = [name for name, (own, other) in pairs.items() if clearly(other, own)]
    worse = [name for name, (own, other) in pairs.items() if clearly(own, other)]
    level = [name for name in pairs if name not in better and name not in worse]
    if len(better) == len(pairs):
        return f"{control} {'do' if control.endswith('s') else 'does'} better, {numbers}"
    if len(level) == len(pairs):
        return f"{control} {numbers}, no clear difference"
    than = f", better than {listed(better)}" if better else ""
    return f"{control} {numbers}{than}{f', not clearly different from {listed(level)}' if level else ''}"
