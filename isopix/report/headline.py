"""What runs have found, in honest sentences: numbers, every control that does better, and likely reasons."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from isopix.report import finetuning_section, probes, words
from isopix.report.finetuning import classes_alone
from isopix.report.load_run import Gathered

Values = Mapping[str, Any]

BYTE = 256  # levels
CHANNELS = {"grey_thumbnail": 1, "mean_colour": 3, "downsampled_colour": 3}  # that share the bits of a code
NEAR_CHANCE = 0.95  # of ln K, the loss of a network that has learnt nothing
FALLING = 0.99  # a quarter of the steps took off more than one per cent
SEPARABLE = 0.9  # the accuracy of raw pixels that leaves little to learn
WIDE = 0.02  # half an interval that hides what small networks gain
HEADLINE_CONTROLS = ("untrained", "raw pixels")  # the tables have all


class HeldOut(NamedTuple):
    """The newest loss on images that were not trained on."""

    nats: float
    images: int
    split: str
    data: str = ""  # where they are not the run's own

    @property
    def bits(self) -> float:
        return self.nats / math.log(2)

    @property
    def graded(self) -> str:
        """The images that the loss is of: `64 test images`."""
        whose = f" of {self.data}" if self.data else ""
        return words.singular(f"{self.images:,} {self.split} images{whose}")


def held_out(run: Gathered) -> HeldOut | None:
    """The test loss of codes, or else the newest validation loss, or else the newest loss that was verified;
    None of a run that learns no codes.
    """
    if classes_alone(run.recipe):
        return None
    if graded := _graded(run, "loss_nats"):
        return graded
    for verified in reversed(run.verifications):
        return HeldOut(verified["loss_nats"], verified["images"], "test", verified["data"])
    return None


def class_loss(run: Gathered) -> HeldOut | None:
    """The test loss of classes, or else the newest validation loss."""
    return _graded(run, "class_nats")


def _graded(run: Gathered, name: str) -> HeldOut | None:
    for split in ("test", "validation"):
        found = [each for each in run.records if each.get("split") == split and name in each]
        if found:
            return HeldOut(float(found[-1][name]), int(found[-1]["images"]), split)
    return None


def best(record: Values) -> Values:
    """The score of the layer that validation chose."""
    return record["layers"][record["best_index"]]


def uniform(run: Gathered) -> int | None:
    """K of a network that gives all levels the same chance before it has learnt anything; None where none is
    known, of a regression, whose first loss is that of its images, and where no codes are learnt.
    """
    head = run.recipe.get("head")
    regresses = isinstance(head, Mapping) and head.get("kind") == "regression"
    return None if regresses or classes_alone(run.recipe) else levels(run)


def levels(run: Gathered) -> int | None:
    """K: the levels of a byte, those of so many bits, or the colours of the palette or the recipe; None where
    none is known.
    """
    if run.weights is not None and run.weights.colours is not None:
        return len(run.weights.colours)
    codec = run.recipe.get("codec")
    if isinstance(codec, Mapping) and codec.get("kind") in ("bytes", "whole_patch"):
        return BYTE
    if isinstance(codec, Mapping) and codec.get("kind") in CHANNELS:
        bits = codec.get("bits")
        return 2 ** (CHANNELS[codec["kind"]] * bits) if isinstance(bits, int) and 1 <= bits <= 8 else None
    colours = codec.get("colours") if isinstance(codec, Mapping) else None
    return colours if isinstance(colours, int) and colours > 0 else None


def steps(run: Gathered) -> int:
    """How many steps the run has made."""
    return max((each["step"] for each in run.records), default=run.weights.step if run.weights else 0)


def seen(run: Gathered) -> int:
    """How many images the run was shown, one shown twice counted twice; by its weights where no log tells."""
    logged = [int(each["images"]) for each in run.records if each["kind"] == "train"]
    batch = run.recipe.get("batch")
    unlogged = run.weights.step * batch if run.weights and isinstance(batch, int) else 0
    return max(logged, default=unlogged)


def sentences(run: Gathered) -> list[str]:
    """The run's recipe in words; of somebody else's model what its files tell, nothing of its training."""
    if run.imported:
        step = run.weights.step if run.weights else 0
        return words.imported(run.recipe, run.imported, step, run.environment.get("trained_on"))
    return words.sentences(run.recipe, run.environment.get("images"), run.environment.get("pretrained"))


def headline(runs: Mapping[str, Gathered]) -> str:
    """One sentence about runs by their names, with the controls beside them."""
    if len(runs) == 1:
        return _of_one(*runs.values())
    probed = probes.speaking(runs)
    if not probed:
        return f"{len(runs)} runs, none of them probed yet."
    if different := probes.differences(list(probed.values())):
        return f"{len(runs)} runs, probed with different {listed(different)}, which are not to be compared."
    shares = [
        f"{percent(best(probe['network'])['test_accuracy'])} ({name})" for name, probe in probed.items()
    ]
    told = f"The best layers tell the class of {listed(shares)} of test images"
    return f"{told}{_shared(probed)}{_beside(probed)}."


def why(run: Gathered) -> str:
    """One sentence of likely reasons where no layer is clearly better than the untrained network's; or empty.

    Each reason is a number of the run itself; where no number speaks, the sentence says so.
    """
    probe = run.probe
    if probe is None or "untrained" not in probe["baselines"]:
        return ""
    if clearly(best(probe["network"]), best(probe["baselines"]["untrained"])):
        return ""
    reasons = [reason for reason in (_training(run), _separable(probe), _few(probe)) if reason]
    start = "The best layer is not clearly above that of the untrained network"
    if not reasons:
        return f"{start}, and no number of this run says why."
    return f"{start}; likely reasons: {'; '.join(reasons)}."


def clearly(one: Values, other: Values) -> bool:
    """Whether one score is higher by more than the halves of both intervals, added as squares.

    That is a test at 95 % of independent scores; of scores on the same images, as ours, a stricter one.
    """
    lead = one["test_accuracy"] - other["test_accuracy"]
    below, above = one["test_accuracy"] - one["interval"][0], other["interval"][1] - other["test_accuracy"]
    return lead > math.hypot(below, above)


def percent(share: float) -> str:
    """A share of images: `41.2 %`, with a space that does not break."""
    return f"{100 * share:.1f}\u00a0%"


def listed(texts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)


def _of_one(run: Gathered) -> str:
    loss, graded = held_out(run), words.graded(run.recipe)
    past = f"imported from {run.imported}" if run.imported else f"shown {seen(run):,} images"
    start = words.singular(f"{words.architecture(run.recipe)}, {past}")
    if run.probe is not None:
        own = best(run.probe["network"])
        reached = ", with" if run.imported else " and trained to"
        trained = f"{reached} {loss.nats:.2f} nats a {graded}" if loss else ""
        told = f"tell the class of {percent(own['test_accuracy'])} of test images at layer {own['layer']}"
        return f"{start}{trained}, {told}{_shared({'': run.probe})}{_beside({'': run.probe})}."
    if answered := finetuning_section.accuracy(run):
        return f"{start} of fine-tuning, tell the class of {percent(answered[0])} of test images."
    if loss:
        count = uniform(run)
        chance = f"; untrained {math.log(count):.2f}" if count else ""
        return f"{start}, name every {graded} of {loss.split} images at {loss.nats:.2f} nats{chance}."
    return f"{start}, have not been measured yet."


def _shared(probed: Mapping[str, Values]) -> str:
    """How all these networks were read, if not as the paper does."""
    return probes.aside(next(iter(probed.values())))


def _beside(probed: Mapping[str, Values]) -> str:
    """`; untrained 27.9 %; raw pixels do better, 47.1 %`."""
    return "".join(f"; {text}" for name in HEADLINE_CONTROLS if (text := _control(name, probed)))


def _control(control: str, probed: Mapping[str, Values]) -> str:
    """A control's accuracy, and which networks it clearly beats or is not clearly different from."""
    pairs = {
        name: (best(probe["network"]), best(probe["baselines"][control]))
        for name, probe in probed.items()
        if control in probe["baselines"]
    }
    if not pairs:
        return ""
    numbers = listed(list(dict.fromkeys(percent(other["test_accuracy"]) for _, other in pairs.values())))
    better = [name for name, (own, other) in pairs.items() if clearly(other, own)]
    worse = [name for name, (own, other) in pairs.items() if clearly(own, other)]
    level = [name for name in pairs if name not in better and name not in worse]
    if len(better) == len(pairs):
        return f"{control} {'do' if control.endswith('s') else 'does'} better, {numbers}"
    if len(level) == len(pairs):
        return f"{control} {numbers}, no clear difference"
    than = f", better than {listed(better)}" if better else ""
    return f"{control} {numbers}{than}{f', not clearly different from {listed(level)}' if level else ''}"


def _training(run: Gathered) -> str:
    """That the run had not come far: a loss near chance, or one that was still falling."""
    if run.imported:  # nobody knows
        return ""
    loss, count = held_out(run), uniform(run)
    train = (run.environment.get("images") or {}).get("train")
    shown = f"{seen(run):,} images" + (f", {words.epochs(seen(run) / train)} epochs" if train else "")
    if loss and count and loss.nats > NEAR_CHANCE * math.log(count):
        return f"after {shown}, the loss is still near chance, {loss.nats:.2f} of {math.log(count):.2f} nats"
    losses = [float(each["loss_nats"]) for each in run.records if each["kind"] == "train"]
    quarter = len(losses) // 4
    if not quarter:
        return ""
    before, after = sum(losses[-2 * quarter : -quarter]) / quarter, sum(losses[-quarter:]) / quarter
    if after < FALLING * before:
        fell = f"{before:.2f} to {after:.2f} nats from the third quarter to the last"
        return f"after {shown}, the loss was still falling, {fell}"
    return f"it was shown {shown}" if train and seen(run) < train else ""


def _separable(probe: Values) -> str:
    if "raw pixels" not in probe["baselines"]:
        return ""
    pixels = best(probe["baselines"]["raw pixels"])["test_accuracy"]
    return f"raw pixels alone are nearly separable, {percent(pixels)}" if pixels > SEPARABLE else ""


def _few(probe: Values) -> str:
    own, count = best(probe["network"]), probe["network"]["num_images"].get("test")
    half = (own["interval"][1] - own["interval"][0]) / 2
    if count is None or half < WIDE:
        return ""
    return f"{count:,} test images leave ±{100 * half:.1f} points"
