"""The ten claims of "On the Bias Against Inductive Biases" (Cazenavette and Lucey 2021), tested by trials.

The paper's claims are the shapes of scatter plots. Each is split into contrasts, between networks that are
equal in everything else, that are positive if it is true. The best layer or network is chosen on validation
images. Where a study has no network of the paper's depth, its deepest one is used and named.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from isopix.core.choices import Pool
from isopix.studies.claims import Contrast, Mean, judge
from isopix.studies.inductive_bias.contrasts import (
    MAIN_BLOCKS,
    NO_SLOPE,
    accuracy_regime,
    at_equal_loss,
    at_layers,
    best_difference,
    difference,
    encoding_difference,
    falling_loss,
    layer_range,
    loss,
    prediction_regime,
    rank_correlation,
)
from isopix.studies.inductive_bias.evidence import StudyEvidence, Term
from isopix.studies.inductive_bias.results import STUDY_POOLS, Architecture, ClaimRecord, Trial, TrialResult

Test = Callable[[StudyEvidence], Iterable[Contrast]]


def _blocks(evidence: StudyEvidence) -> Iterable[Contrast]:
    """Convolutions beat mixers, and mixers beat transformers by far, in loss and in accuracy."""
    pairs = [("conv", "mixer"), ("mixer", "transformer-1")]
    pairs += [("mixer", block) for block in sorted({*evidence.blocks} - {*MAIN_BLOCKS})]
    for better, worse in pairs:
        found = difference(evidence, (worse, better), loss)
        text, predicted = f"loss({worse}) − loss({better})", prediction_regime(evidence, (better, worse))
        yield Contrast(text, "nats", found, predicted)
        found = difference(evidence, (better, worse), evidence.accuracy)
        text, shown = f"accuracy({better}) − accuracy({worse})", accuracy_regime(evidence, (better, worse))
        yield Contrast(text, "points", found, shown)


def _correlation(evidence: StudyEvidence) -> Iterable[Contrast]:
    """The lower the loss, the better the probe, over all networks."""
    text, shown = "negative rank correlation of loss and accuracy", accuracy_regime(evidence, MAIN_BLOCKS)
    yield Contrast(text, "", rank_correlation(evidence, evidence.trials), shown, fisher=True)
    for block in evidence.blocks:
        found = rank_correlation(evidence, [trial for trial in evidence.trials if trial.block == block])
        text = f"the same within {block}"
        yield Contrast(text, "", found, fisher=True, counted=False)


def _equal_loss(evidence: StudyEvidence) -> Iterable[Contrast]:
    """At equal loss, continuous input has the best probe accuracy, then Fourier features, then pix2vec."""
    slope = at_equal_loss(evidence, {"loss": -1.0})
    falls = slope.estimate is not None and slope.estimate.mean - slope.estimate.half_width() > 0
    shown = accuracy_regime(evidence, MAIN_BLOCKS) or ("" if falls else NO_SLOPE)
    for better, worse in (("continuous", "fourier"), ("fourier", "pix2vec")):
        text = f"accuracy at equal loss: {better} − {worse}"
        found = at_equal_loss(evidence, {better: 1.0, worse: -1.0})
        yield Contrast(text, "points", found, shown)
    text = "fall of accuracy with the loss, between networks of a block and an encoding"
    yield Contrast(text, "points per nat", slope, counted=False)


def _best(evidence: StudyEvidence) -> Iterable[Contrast]:
    """The best network in both uses pix2vec."""
    noise = evidence.noise(evidence.blocks, loss)
    found = best_difference(evidence, lambda trial: -trial.loss, falling_loss, noise)
    text, predicted = "lowest loss: without pix2vec − with pix2vec", prediction_regime(evidence, MAIN_BLOCKS)
    yield Contrast(text, "nats", found, predicted)
    noise = evidence.noise(evidence.blocks, evidence.layers)

    def validation(trial: Trial) -> float:
        return evidence.probes(trial).validation_accuracy

    found = best_difference(evidence, validation, evidence.accuracy, noise)
    text, shown = "best accuracy: with pix2vec − without pix2vec", accuracy_regime(evidence, MAIN_BLOCKS)
    yield Contrast(text, "points", found, shown)


def _depth(evidence: StudyEvidence) -> Iterable[Contrast]:
    """Deeper networks are better."""
    networks: dict[tuple[str, str], list[Architecture]] = {}
    for architecture in dict.fromkeys(trial.architecture for trial in evidence.trials):
        networks.setdefault(architecture[:2], []).append(architecture)
    kinds = [kind for kind, own in networks.items() if len(own) > 1]

    def slope(read: Callable[[Trial], list[Term]], *own: Trial) -> list[Term]:
        log = np.log2([each.depth for each in own])
        slopes = (log - log.mean()) / np.square(log - log.mean()).sum()
        pairs = zip(slopes.tolist(), own, strict=True)
        return [term.times(weight) for weight, trial in pairs for term in read(trial)]

    def gain(read: Callable[[Trial], list[Term]]) -> Mean:
        return evidence.mean(kinds, evidence.reading(networks.__getitem__, partial(slope, read)))

    text, predicted = "loss reduction per doubling of depth", prediction_regime(evidence, MAIN_BLOCKS)
    yield Contrast(text, "nats per doubling", gain(falling_loss), predicted)
    text, shown = "accuracy gain per doubling of depth", accuracy_regime(evidence, MAIN_BLOCKS)
    yield Contrast(text, "points per doubling", gain(evidence.accuracy), shown)


def _middle(evidence: StudyEvidence) -> Iterable[Contrast]:
    """In convolutions the middle layers have the best probe accuracy."""
    kinds = [kind for kind in evidence.kinds("conv") if kind[1] > 1]

    def above(end: int, trial: Trial) -> list[Term]:
        layers, validation = evidence.layers(trial), evidence.probes(trial).validation_accuracies
        inner = max(range(1, trial.depth), key=validation.__getitem__)
        return [layers[inner], layers[end].times(-1)]

    for text, end in (("last", -1), ("first", 0)):
        find = evidence.reading(lambda kind: [("conv", *kind)], partial(above, end))
        words = f"accuracy of convolutions: best inner layer − {text} layer"
        shown = accuracy_regime(evidence, ["conv"])
        yield Contrast(words, "points", evidence.mean(kinds, find), shown)


def _mixers(evidence: StudyEvidence) -> Iterable[Contrast]:
    """In a mixer of 6 blocks Fourier features beat continuous input at every layer, and pix2vec is equally
    bad at all.
    """
    depth = evidence.deepest("mixer", 6)
    network, shown = ("mixer", depth), accuracy_regime(evidence, ["mixer"], depth)
    yield from at_layers(evidence, network, ("fourier", "continuous"), range(depth + 1))
    compared = (
        ("best layers", evidence.accuracy, 2),
        ("range over layers", partial(layer_range, evidence), 4),
    )
    for what, read, networks in compared:
        text = f"accuracy of mixer-{depth}, {what}: fourier − pix2vec"
        found = encoding_difference(evidence, network, ("fourier", "pix2vec"), read, networks)
        yield Contrast(text, "points", found, shown)


def _transformers(evidence: StudyEvidence) -> Iterable[Contrast]:
    """In a one-headed transformer of 6 blocks pix2vec beats the others at all layers but the last."""
    depth = evidence.deepest("transformer-1", 6)
    for other in ("fourier", "continuous"):
        yield from at_layers(evidence, ("transformer-1", depth), ("pix2vec", other), range(depth))


def _preservation(evidence: StudyEvidence) -> Iterable[Contrast]:
    """pix2vec preserves distance most in convolutions, less in mixers, and hardly in transformers."""
    depth = min(evidence.deepest(block, 3) for block in MAIN_BLOCKS)

    def red(name: str, trial: Trial) -> list[Term] | None:
        channels = trial.measurements.get(name)
        return None if channels is None or trial.encoding != "pix2vec" else [Term(1, channels[0])]

    for better, worse in (("conv", "mixer"), ("mixer", "transformer-1")):
        found = {
            name: difference(evidence, (better, worse), partial(red, name), only=("pix2vec", depth))
            for name in ("distance_preservation", "local_similarity")
        }
        alone = [Contrast("", "", each) for each in found.values()]
        agree = len({each.tested(each.refuting_p).verdict for each in alone}) == 1
        regime = "" if agree else "the other measure of distance does not show the same"
        for name, each in found.items():
            text = f"{name.replace('_', ' ')} of red: {better}-{depth} − {worse}-{depth}"
            yield Contrast(text, "", each, regime)


def _reconstructions(evidence: StudyEvidence) -> Iterable[Contrast]:
    """Convolutions reconstruct almost perfectly, mixers misplace the right colors, and transformers predict
    wrong ones.
    """

    def percent(name: str, trial: Trial) -> list[Term] | None:
        errors = trial.measurements.get("color_error")
        return None if errors is None else [Term(100, errors[name])]

    pairs = (
        ("error", ("mixer", "conv"), "mean_absolute", "% of range"),
        ("error", ("transformer-1", "mixer"), "mean_absolute", "% of range"),
        ("color histogram error", ("transformer-1", "mixer"), "histogram", "% of range"),
        ("misplaced fraction", ("mixer", "transformer-1"), "misplaced_fraction", "%"),
    )
    for what, (worse, better), name, unit in pairs:
        found = difference(evidence, (worse, better), partial(percent, name))
        predicted = prediction_regime(evidence, (worse, better))
        yield Contrast(f"{what}({worse}) − {what}({better})", unit, found, predicted)


# By letter: the test, whose docstring is the statement of the paper, and the place of that.
CLAIMS: dict[str, tuple[Test, str]] = {
    "a": (_blocks, "figure 4"),
    "b": (_correlation, "section 5.1"),
    "c": (_equal_loss, "section 5.2"),
    "d": (_best, "section 5.2"),
    "e": (_depth, "figure 6"),
    "f": (_middle, "figure 6"),
    "g": (_mixers, "figure 7"),
    "h": (_transformers, "figure 7"),
    "i": (_preservation, "figure 5"),
    "j": (_reconstructions, "figure 1"),
}


def evaluate_claims(evidence: StudyEvidence) -> list[ClaimRecord]:
    """Return all ten claims; missing trials leave one undecided."""
    return judge(
        [
            (letter, " ".join((test.__doc__ or "").split()), source, list(test(evidence)))
            for letter, (test, source) in CLAIMS.items()
        ]
    )


def evaluate_trials(done: Sequence[TrialResult]) -> dict[Pool, tuple[ClaimRecord, ...]]:
    """Return the ten claims under each pool, from finished trials."""
    groups = np.array(done[0].test_groups) if done and done[0].test_groups else None
    trials = [each.measured() for each in done]
    evidence = [StudyEvidence(trials, pool, groups) for pool in STUDY_POOLS]
    return {each.pool: tuple(evaluate_claims(each)) for each in evidence}
