"""On the Bias Against Inductive Biases (Cazenavette and Lucey 2021): ten claims, judged by a study's cells.

The paper prints no table: its claims are the shapes of scatter plots. Each is taken apart into numbers that
ought to be positive, computed for each seed on its own between networks that are equal in all else; the
spread of a number is that over seeds. Which layer or network is the best is chosen by validation images and
told by test images. Words such as "by far" are not judged. Where a study has no network of the paper's depth,
its deepest stands for it, and the text says so.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean
from typing import NamedTuple

from isopix.studies.claim_tests import Evidence, Finding, Measured, Part
from isopix.studies.inductive_bias.regression import at_fixed_loss, loss_and_accuracy, of_doubling
from isopix.studies.inductive_bias.trials import Cell, Group, groups

STRONG = 0.7  # a rank correlation that is called strong
Value = Callable[[Cell], float | None]


class Claim(NamedTuple):
    """What the paper says, where, and how cells judge it."""

    letter: str
    text: str
    source: str
    judge: Callable[[Evidence], Iterable[Part]]


def findings(cells: Sequence[Cell], measured: Measured) -> list[Finding]:
    """All ten claims, by the cells that are there; what is missing leaves a claim undecided."""
    evidence = Evidence(cells, measured)
    return [Finding(each.letter, each.text, each.source, tuple(each.judge(evidence))) for each in CLAIMS]


def _blocks(evidence: Evidence) -> Iterable[Part]:
    pairs = [("conv", "mixer"), ("mixer", "transformer-1")]
    if any(cell.block == "transformer-4" for cell in evidence.cells):
        pairs.append(("mixer", "transformer-4"))
    for better, worse in pairs:
        yield _difference(evidence, f"loss of {worse} above {better}", (worse, better), _loss, "nats")
        yield _difference(evidence, f"accuracy of {better} above {worse}", (better, worse), _points, "points")


def _correlation(evidence: Evidence) -> Iterable[Part]:
    found = [loss_and_accuracy(each) for each in _by_seed(evidence)]
    rho = tuple(-each.spearman.rho for each in found if each is not None)
    yield Part(f"rank correlation with the loss, turned, above {STRONG:g}", "", rho, STRONG)


def _equal_loss(evidence: Evidence) -> Iterable[Part]:
    for better, worse in (("continuous", "fourier"), ("fourier", "pix2vec")):
        found = [at_fixed_loss(each, better, worse) for each in _by_seed(evidence)]
        values = tuple(100 * each.value for each in found if each is not None)
        yield Part(f"accuracy of {better} above {worse} at equal loss", "points", values)


def _best(evidence: Evidence) -> Iterable[Part]:
    losses, accuracies = [], []
    for seed in evidence.whole:
        cells = evidence.of(seed).values()
        own = [cell for cell in cells if cell.encoding == "pix2vec"]
        others = [cell for cell in cells if cell.encoding != "pix2vec"]
        if own and others:
            losses.append(min(cell.loss for cell in others) - min(cell.loss for cell in own))
            best, other = (max(those, key=lambda cell: cell.validation) for those in (own, others))
            accuracies.append(_points(best) - _points(other))
    yield Part("lowest loss without pix2vec above that with it", "nats", tuple(losses))
    yield Part("accuracy of the best with pix2vec above that without it", "points", tuple(accuracies))


def _depth(evidence: Evidence) -> Iterable[Part]:
    def of_twice(value: Callable[[Group], float]) -> tuple[float, ...]:
        found = (of_doubling(each, value) for each in _by_seed(evidence))
        return tuple(each.value for each in found if each is not None)

    yield Part("what twice the depth takes off the loss", "nats", of_twice(lambda group: -group.loss.mean))
    yield Part(
        "what twice the depth adds to the accuracy",
        "points",
        of_twice(lambda group: 100 * group.accuracy.mean),
    )


def _middle(evidence: Evidence) -> Iterable[Part]:
    depth = evidence.deepest("conv", 6)

    def above(end: int) -> Value:
        def value(cell: Cell) -> float | None:
            best = max(range(1, cell.depth), key=cell.validations.__getitem__, default=None)
            return None if best is None else 100 * (cell.accuracies[best] - cell.accuracies[end])

        return value

    for text, end in (("last", -1), ("first", 0)):
        values = _means(evidence, lambda cell: cell.block == "conv" and cell.depth == depth, above(end))
        yield Part(f"best inner layer of conv-{depth} above its {text}", "points", values)


def _mixers(evidence: Evidence) -> Iterable[Part]:
    depth = evidence.deepest("mixer", 6)
    yield from _at_layers(evidence, ("mixer", depth), ("fourier", "continuous"), range(depth + 1))
    pairs = _pairs(evidence, ("mixer", depth), ("fourier", "pix2vec"))
    yield Part(
        f"mixer-{depth}, best layers: fourier above pix2vec",
        "points",
        tuple(_points(one) - _points(other) for one, other in pairs),
    )
    yield Part(
        f"mixer-{depth}, range over layers: fourier above pix2vec",
        "points",
        tuple(_range(one) - _range(other) for one, other in pairs),
    )


def _transformers(evidence: Evidence) -> Iterable[Part]:
    depth = evidence.deepest("transformer-1", 6)
    for other in ("fourier", "continuous"):
        yield from _at_layers(evidence, ("transformer-1", depth), ("pix2vec", other), range(depth))


def _preservation(evidence: Evidence) -> Iterable[Part]:
    depth = min(evidence.deepest(block, 3) for block in ("conv", "mixer", "transformer-1"))

    def red(cell: Cell) -> float | None:
        channels = evidence.number(cell, "preservation")
        of_it = cell.depth == depth and cell.encoding == "pix2vec" and channels is not None
        return channels[0] if of_it else None

    for better, worse in (("conv", "mixer"), ("mixer", "transformer-1")):
        text = f"distance kept of red: {better}-{depth} above {worse}-{depth}"
        yield _difference(evidence, text, (better, worse), red, "")


def _reconstructions(evidence: Evidence) -> Iterable[Part]:
    def colours(name: str) -> Value:
        def value(cell: Cell) -> float | None:
            errors = evidence.number(cell, "colours")
            return None if errors is None else 100 * errors[name]

        return value

    pairs = (
        ("error of mixer above conv", ("mixer", "conv"), "whole", "% of range"),
        ("error of transformer-1 above mixer", ("transformer-1", "mixer"), "whole", "% of range"),
        (
            "palette error of transformer-1 above mixer",
            ("transformer-1", "mixer"),
            "palette",
            "% of range",
        ),
        (
            "misplaced share of mixer above transformer-1",
            ("mixer", "transformer-1"),
            "misplaced",
            "%",
        ),
    )
    for text, blocks, name, unit in pairs:
        yield _difference(evidence, text, blocks, colours(name), unit)


def _loss(cell: Cell) -> float:
    return cell.loss


def _points(cell: Cell) -> float:
    return 100 * cell.accuracy


def _difference(evidence: Evidence, text: str, blocks: tuple[str, str], value: Value, unit: str) -> Part:
    """For each seed the mean of `value` of the first block minus that of the second, over cells that are
    equal in encoding and depth.
    """

    def above(cell: Cell) -> float | None:
        mate = evidence.of(cell.seed).get((blocks[1], cell.encoding, cell.depth))
        own, other = value(cell), None if mate is None else value(mate)
        return None if own is None or other is None else own - other

    return Part(text, unit, _means(evidence, lambda cell: cell.block == blocks[0], above))


def _means(evidence: Evidence, wanted: Callable[[Cell], bool], value: Value) -> tuple[float, ...]:
    """For each seed the mean of `value` over the cells that are wanted and have one; seeds with fewer of them
    than others are left out.
    """
    found = []
    for seed in evidence.seeds:
        values = (value(cell) for cell in evidence.of(seed).values() if wanted(cell))
        found.append([each for each in values if each is not None])
    most = max(map(len, found), default=0)
    return tuple(mean(values) for values in found if values and len(values) == most)


def _by_seed(evidence: Evidence) -> list[list[Group]]:
    """The cells of each whole seed, as groups of one."""
    return [groups(list(evidence.of(seed).values())) for seed in evidence.whole]


def _at_layers(
    evidence: Evidence, network: tuple[str, int], encodings: tuple[str, str], layers: Iterable[int]
) -> Iterable[Part]:
    """How much more accurate a layer is with the first encoding, a part for each layer: the least of several
    uncertain numbers is negative sooner than any of them.
    """
    pairs = _pairs(evidence, network, encodings)
    for layer in layers:
        yield Part(
            f"{network[0]}-{network[1]}, layer {layer}: {encodings[0]} above {encodings[1]}",
            "points",
            tuple(100 * (one.accuracies[layer] - other.accuracies[layer]) for one, other in pairs),
        )


def _pairs(
    evidence: Evidence, network: tuple[str, int], encodings: tuple[str, str]
) -> list[tuple[Cell, Cell]]:
    """For each seed that has both, the networks of that block and depth with either encoding."""
    (block, depth), found = network, list[tuple[Cell, Cell]]()
    for cells in map(evidence.of, evidence.seeds):
        one, other = (cells.get((block, encoding, depth)) for encoding in encodings)
        if one is not None and other is not None:
            found.append((one, other))
    return found


def _range(cell: Cell) -> float:
    """Of the accuracies of all layers, in per cent."""
    return 100 * (max(cell.accuracies) - min(cell.accuracies))


CLAIMS = (
    Claim(
        "a",
        "Convolutions beat mixers, and mixers by far transformers, in loss and in accuracy.",
        "figure 4",
        _blocks,
    ),
    Claim("b", "The lower the loss, the better the probe, over all networks.", "section 5.1", _correlation),
    Claim(
        "c",
        "At equal loss, continuous input serves classes best, then Fourier features, then pix2vec.",
        "figure 4",
        _equal_loss,
    ),
    Claim("d", "The best network in both uses pix2vec.", "section 5.2", _best),
    Claim("e", "Deeper networks are better.", "figure 6", _depth),
    Claim("f", "Convolutions are best probed in the middle of the network.", "figure 6", _middle),
    Claim(
        "g",
        "In a mixer of 6 blocks Fourier features beat continuous input at every layer, and pix2vec is "
        "equally bad at all.",
        "figure 7",
        _mixers,
    ),
    Claim(
        "h",
        "In a one-headed transformer of 6 blocks pix2vec beats the others at all layers but the last.",
        "figure 7",
        _transformers,
    ),
    Claim(
        "i",
        "pix2vec keeps most distance in convolutions, less in mixers, and hardly any in transformers.",
        "figure 5",
        _preservation,
    ),
    Claim(
        "j",
        "Convolutions reconstruct almost perfectly, mixers misplace the right colours, and transformers "
        "take wrong ones.",
        "figure 1",
        _reconstructions,
    ),
)
