"""The ten claims of "On the Bias Against Inductive Biases" (Cazenavette and Lucey 2021), tested by trials.

The paper has no table: its claims are the shapes of scatter plots. Each is split into contrasts that are
positive if it is true, computed per seed between networks that are equal in everything else. The best layer
or network is chosen on validation images and evaluated on test images. Words such as "by far" are not tested.
Where a study has no network of the paper's depth, its deepest one is used and named.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean
from typing import NamedTuple

from isopix.plots.study import TrialGroup
from isopix.studies.claim_tests import ClaimResult, Contrast, Measurements, StudyEvidence
from isopix.studies.inductive_bias.regression import (
    at_fixed_loss,
    effect_of_doubling_depth,
    loss_and_accuracy,
)
from isopix.studies.inductive_bias.trials import Trial, group_trials

STRONG = 0.7  # a strong rank correlation
Value = Callable[[Trial], float | None]
Test = Callable[[StudyEvidence], Iterable[Contrast]]


class Claim(NamedTuple):
    """A statement of the paper, its place there, and its contrasts."""

    letter: str
    source: str
    text: str
    test: Test


CLAIMS: list[Claim] = []


def _claim(letter: str, source: str, text: str) -> Callable[[Test], Test]:
    """Return a decorator that adds a claim with the contrasts that a function yields."""

    def add(test: Test) -> Test:
        CLAIMS.append(Claim(letter, source, text, test))
        return test

    return add


def claim_results(trials: Sequence[Trial], measurements: Measurements) -> list[ClaimResult]:
    """Return the results of all ten claims; missing trials leave a claim undecided."""
    evidence = StudyEvidence(trials, measurements)
    return [ClaimResult(each.letter, each.text, each.source, tuple(each.test(evidence))) for each in CLAIMS]


@_claim("a", "figure 4", "Convolutions beat mixers, and mixers by far transformers, in loss and in accuracy.")
def _blocks(evidence: StudyEvidence) -> Iterable[Contrast]:
    pairs = [("conv", "mixer"), ("mixer", "transformer-1")]
    if any(trial.block == "transformer-4" for trial in evidence.trials):
        pairs.append(("mixer", "transformer-4"))
    for better, worse in pairs:
        yield _difference(evidence, f"loss({worse}) − loss({better})", (worse, better), _loss, "nats")
        yield _difference(
            evidence, f"accuracy({better}) − accuracy({worse})", (better, worse), _points, "points"
        )


@_claim("b", "section 5.1", "The lower the loss, the better the probe, over all networks.")
def _correlation(evidence: StudyEvidence) -> Iterable[Contrast]:
    found = [loss_and_accuracy(each) for each in _by_seed(evidence)]
    rho = tuple(-each.spearman.rho for each in found if each is not None)
    yield Contrast(f"negative rank correlation with the loss (threshold {STRONG:g})", "", rho, STRONG)


@_claim(
    "c",
    "figure 4",
    "At equal loss, continuous input has the best probe accuracy, then Fourier features, then pix2vec.",
)
def _equal_loss(evidence: StudyEvidence) -> Iterable[Contrast]:
    for better, worse in (("continuous", "fourier"), ("fourier", "pix2vec")):
        found = [at_fixed_loss(each, better, worse) for each in _by_seed(evidence)]
        values = tuple(100 * each.value for each in found if each is not None)
        yield Contrast(f"accuracy at equal loss: {better} − {worse}", "points", values)


@_claim("d", "section 5.2", "The best network in both uses pix2vec.")
def _best(evidence: StudyEvidence) -> Iterable[Contrast]:
    losses, accuracies = [], []
    for seed in evidence.complete_seeds:
        trials = evidence.trials_of(seed).values()
        own = [trial for trial in trials if trial.encoding == "pix2vec"]
        others = [trial for trial in trials if trial.encoding != "pix2vec"]
        if own and others:
            losses.append(min(trial.loss for trial in others) - min(trial.loss for trial in own))
            best, other = (max(group, key=lambda trial: trial.validation_accuracy) for group in (own, others))
            accuracies.append(_points(best) - _points(other))
    yield Contrast("lowest loss: without pix2vec − with pix2vec", "nats", tuple(losses))
    yield Contrast("best accuracy: with pix2vec − without pix2vec", "points", tuple(accuracies))


@_claim("e", "figure 6", "Deeper networks are better.")
def _depth(evidence: StudyEvidence) -> Iterable[Contrast]:
    def of_twice(value: Callable[[TrialGroup], float]) -> tuple[float, ...]:
        found = (effect_of_doubling_depth(each, value) for each in _by_seed(evidence))
        return tuple(each.value for each in found if each is not None)

    yield Contrast("loss reduction per doubling of depth", "nats", of_twice(lambda group: -group.loss.mean))
    gain = of_twice(lambda group: 100 * group.accuracy.mean)
    yield Contrast("accuracy gain per doubling of depth", "points", gain)


@_claim("f", "figure 6", "In convolutions the middle layers have the best probe accuracy.")
def _middle(evidence: StudyEvidence) -> Iterable[Contrast]:
    depth = evidence.deepest("conv", 6)

    def above(end: int) -> Value:
        def value(trial: Trial) -> float | None:
            best = max(range(1, trial.depth), key=trial.validation_accuracies.__getitem__, default=None)
            return None if best is None else 100 * (trial.test_accuracies[best] - trial.test_accuracies[end])

        return value

    for text, end in (("last", -1), ("first", 0)):
        values = _means(evidence, lambda trial: trial.block == "conv" and trial.depth == depth, above(end))
        yield Contrast(f"accuracy of conv-{depth}: best inner layer − {text} layer", "points", values)


@_claim(
    "g",
    "figure 7",
    "In a mixer of 6 blocks Fourier features beat continuous input at every layer, and pix2vec is "
    "equally bad at all.",
)
def _mixers(evidence: StudyEvidence) -> Iterable[Contrast]:
    depth = evidence.deepest("mixer", 6)
    yield from _at_layers(evidence, ("mixer", depth), ("fourier", "continuous"), range(depth + 1))
    pairs = _pairs(evidence, ("mixer", depth), ("fourier", "pix2vec"))
    for text, value in (("best layers", _points), ("range over layers", _range)):
        values = tuple(value(one) - value(other) for one, other in pairs)
        yield Contrast(f"accuracy of mixer-{depth}, {text}: fourier − pix2vec", "points", values)


@_claim(
    "h",
    "figure 7",
    "In a one-headed transformer of 6 blocks pix2vec beats the others at all layers but the last.",
)
def _transformers(evidence: StudyEvidence) -> Iterable[Contrast]:
    depth = evidence.deepest("transformer-1", 6)
    for other in ("fourier", "continuous"):
        yield from _at_layers(evidence, ("transformer-1", depth), ("pix2vec", other), range(depth))


@_claim(
    "i",
    "figure 5",
    "pix2vec preserves distance most in convolutions, less in mixers, and hardly in transformers.",
)
def _preservation(evidence: StudyEvidence) -> Iterable[Contrast]:
    depth = min(evidence.deepest(block, 3) for block in ("conv", "mixer", "transformer-1"))

    def red(trial: Trial) -> float | None:
        channels = evidence.measurement(trial, "distance_preservation")
        of_it = trial.depth == depth and trial.encoding == "pix2vec" and channels is not None
        return channels[0] if of_it else None

    for better, worse in (("conv", "mixer"), ("mixer", "transformer-1")):
        text = f"distance preservation of red: {better}-{depth} − {worse}-{depth}"
        yield _difference(evidence, text, (better, worse), red, "")


@_claim(
    "j",
    "figure 1",
    "Convolutions reconstruct almost perfectly, mixers misplace the right colors, and transformers "
    "predict wrong ones.",
)
def _reconstructions(evidence: StudyEvidence) -> Iterable[Contrast]:
    def color_error(name: str) -> Value:
        def value(trial: Trial) -> float | None:
            errors = evidence.measurement(trial, "color_error")
            return None if errors is None else 100 * errors[name]

        return value

    pairs = (
        ("error", ("mixer", "conv"), "mean_absolute", "% of range"),
        ("error", ("transformer-1", "mixer"), "mean_absolute", "% of range"),
        ("color histogram error", ("transformer-1", "mixer"), "histogram", "% of range"),
        ("misplaced fraction", ("mixer", "transformer-1"), "misplaced_fraction", "%"),
    )
    for what, (worse, better), name, unit in pairs:
        text = f"{what}({worse}) − {what}({better})"
        yield _difference(evidence, text, (worse, better), color_error(name), unit)


def _loss(trial: Trial) -> float:
    return trial.loss


def _points(trial: Trial) -> float:
    return 100 * trial.test_accuracy


def _difference(
    evidence: StudyEvidence, text: str, blocks: tuple[str, str], value: Value, unit: str
) -> Contrast:
    """Return per seed the mean of `value` of the first block minus that of the second, over trials with the
    same encoding and depth.
    """

    def above(trial: Trial) -> float | None:
        mate = evidence.trials_of(trial.seed).get((blocks[1], trial.encoding, trial.depth))
        own, other = value(trial), None if mate is None else value(mate)
        return None if own is None or other is None else own - other

    return Contrast(text, unit, _means(evidence, lambda trial: trial.block == blocks[0], above))


def _means(evidence: StudyEvidence, selected: Callable[[Trial], bool], value: Value) -> tuple[float, ...]:
    """Return per seed the mean of `value` over the selected trials; seeds with fewer values are left out."""
    found = []
    for seed in evidence.seeds:
        values = (value(trial) for trial in evidence.trials_of(seed).values() if selected(trial))
        found.append([each for each in values if each is not None])
    most = max(map(len, found), default=0)
    return tuple(mean(values) for values in found if values and len(values) == most)


def _by_seed(evidence: StudyEvidence) -> list[list[TrialGroup]]:
    """Return the trials of each complete seed, as groups of one."""
    return [group_trials(list(evidence.trials_of(seed).values())) for seed in evidence.complete_seeds]


def _at_layers(
    evidence: StudyEvidence, network: tuple[str, int], encodings: tuple[str, str], layers: Iterable[int]
) -> Iterable[Contrast]:
    """Yield the accuracy of the first encoding minus that of the second, a contrast for each layer: the
    minimum of several uncertain numbers would be negative too often.
    """
    pairs = _pairs(evidence, network, encodings)
    for layer in layers:
        yield Contrast(
            f"accuracy of {network[0]}-{network[1]}, layer {layer}: {encodings[0]} − {encodings[1]}",
            "points",
            tuple(100 * (one.test_accuracies[layer] - other.test_accuracies[layer]) for one, other in pairs),
        )


def _pairs(
    evidence: StudyEvidence, network: tuple[str, int], encodings: tuple[str, str]
) -> list[tuple[Trial, Trial]]:
    """Return per seed the networks of a block and depth with either encoding, if both are there."""
    (block, depth), found = network, list[tuple[Trial, Trial]]()
    for trials in map(evidence.trials_of, evidence.seeds):
        one, other = (trials.get((block, encoding, depth)) for encoding in encodings)
        if one is not None and other is not None:
            found.append((one, other))
    return found


def _range(trial: Trial) -> float:
    """Return the range of the test accuracies of all layers, in percentage points."""
    return 100 * (max(trial.test_accuracies) - min(trial.test_accuracies))
