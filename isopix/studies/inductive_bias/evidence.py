"""The trials of a study as evidence: which are paired, and means over seeds, kinds and test images."""

import base64
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Int

from isopix.core.choices import Pool
from isopix.recipes.isotropic import ENCODINGS
from isopix.studies.claims import Mean, Noise, PerImage, crossed_estimate
from isopix.studies.inductive_bias.results import Architecture, ProbedLayers, Trial, network_name

K = TypeVar("K", bound=Hashable)


def pack_correct(correct: np.ndarray) -> str:
    """Return a bit for each image in base 64."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode()


@cache
def unpack_correct(packed: str, num_images: int) -> np.ndarray:
    """Return what `pack_correct` packed."""
    bits = np.frombuffer(base64.b64decode(packed), dtype=np.uint8)
    return np.unpackbits(bits, count=num_images).astype(bool)


def correct_images(probed: ProbedLayers, layer: int) -> np.ndarray | None:
    """Return whether a layer classifies each test image correctly; None if that is not known."""
    if not probed.correct:
        return None
    return unpack_correct(probed.correct[layer if len(probed.correct) > 1 else 0], probed.num_images)


class Term(NamedTuple):
    """A weight times a number of a network; of an accuracy, `correct` says which test images it is of."""

    weight: float
    value: float
    correct: np.ndarray | None = None

    @property
    def product(self) -> float:
        return self.weight * self.value

    def times(self, factor: float) -> "Term":
        return self._replace(weight=factor * self.weight)


Kind = tuple[str | int, ...]  # what networks have in common, as ("pix2vec", 3)
Read = Callable[..., list[Term] | None]  # of one network or several; None: not known
Find = Callable[[int, Any], list[Term] | None]  # of a seed and a kind; None: no such network


UNKNOWN = Mean(None, (), {})


@dataclass
class StudyEvidence:
    """The finished trials of a study under one pool."""

    trials: Sequence[Trial]
    pool: Pool
    groups: Int[np.ndarray, " B"] | None = None

    @cached_property
    def by_seed(self) -> dict[int, dict[Architecture, Trial]]:
        found: dict[int, dict[Architecture, Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.seed, {})[trial.architecture] = trial
        return dict(sorted(found.items()))

    def complete(self, trials: Sequence[Trial]) -> tuple[list[int], list[Architecture]]:
        """Return seeds and architectures of the largest complete design; only its numbers compare."""
        return largest_design(
            {seed: [each.architecture for each in trials if each.seed == seed] for seed in self.by_seed}
        )

    @cached_property
    def blocks(self) -> list[str]:
        return list(dict.fromkeys(trial.block for trial in self.trials))

    def kinds(self, *blocks: str) -> list[tuple[str, int]]:
        found = [dict.fromkeys(trial.kind for trial in self.trials if trial.block == each) for each in blocks]
        return [kind for kind in found[0] if all(kind in own for own in found)]

    def probes(self, trial: Trial) -> ProbedLayers:
        return trial.probes[self.pool].network

    def deepest(self, block: str, limit: int) -> int:
        """Return the depth of a block's deepest trials up to `limit`; `limit` without trials."""
        depths = (trial.depth for trial in self.trials if trial.block == block and trial.depth <= limit)
        return max(depths, default=limit)

    def accuracy_of(self, probed: ProbedLayers, layer: int | None = None) -> Term:
        """Return the accuracy of a layer in points; None: of the one that is best on validation images."""
        read = probed.best_layer if layer is None else layer
        return Term(100, probed.test_accuracies[read], correct_images(probed, read))

    def accuracy(self, trial: Trial, layer: int | None = None) -> list[Term]:
        return [self.accuracy_of(self.probes(trial), layer)]

    def layers(self, trial: Trial) -> list[Term]:
        probed = self.probes(trial)
        return [self.accuracy_of(probed, layer) for layer in range(len(probed.test_accuracies))]

    def reading(self, networks: Callable[[Any], Sequence[Architecture]], read: Read) -> Find:
        """Return a function that reads all the networks of a kind together."""

        def find(seed: int, kind: Any) -> list[Term] | None:
            own = [self.by_seed[seed].get(architecture) for architecture in networks(kind)]
            return None if None in own else read(*own)

        return find

    def mean(self, kinds: Iterable[Kind], find: Find, noise: Noise | None = None) -> Mean:
        """Return the mean over kinds, seeds and test images of the sum of the terms of `find(seed, kind)`."""
        kinds = list(dict.fromkeys(kinds))
        found = {
            seed: {kind: terms for kind in kinds if (terms := find(seed, kind)) is not None}
            for seed in self.by_seed
        }
        seeds, known = largest_design({seed: list(row) for seed, row in found.items()})
        if not known:
            return UNKNOWN
        rows = [[found[seed][kind] for kind in known] for seed in seeds]
        values = np.array([[sum(term.product for term in terms) for terms in row] for row in rows], float)
        encodings = [each for kind in known for each in kind if each in ENCODINGS]  # none, or one of each
        estimate = crossed_estimate(values, _per_image(rows), self.groups, noise, encodings)
        means = dict(zip(map(network_name, known), values.mean(0).tolist(), strict=True))
        return Mean(estimate, tuple(values.mean(1).tolist()), means)

    def noise(self, blocks: Sequence[str], read: Read, networks: int = 2) -> Noise | None:
        """Return the variance between seeds of a difference of `networks` numbers, pooled over blocks."""
        variances = list[float]()
        for architecture in dict.fromkeys(each.architecture for each in self.trials if each.block in blocks):
            own = [read(trials[architecture]) for trials in self.by_seed.values() if architecture in trials]
            known = np.array([[term.product for term in terms] for terms in own if terms is not None])
            if len(known) >= 2:
                variances += [float(known.var(0, ddof=1).mean())] * (len(known) - 1)
        return Noise(networks * float(np.mean(variances)), len(variances)) if variances else None


def _per_image(rows: Sequence[Sequence[Sequence[Term]]]) -> PerImage | None:
    count = sum(len(row) for row in rows)
    terms = [term for row in rows for terms in row for term in terms]
    images = [term.weight / count * term.correct for term in terms if term.correct is not None]
    return sum(images, np.zeros(1)) if len(images) == len(terms) else None


def largest_design(known: Mapping[int, Sequence[K]]) -> tuple[list[int], list[K]]:
    """Return seeds, two if possible, and kinds such that every seed has every kind, as many as possible."""
    kinds = list(dict.fromkeys(kind for own in known.values() for kind in own))
    counts = {kind: sum(kind in own for own in known.values()) for kind in kinds}
    designs: list[tuple[list[int], list[K]]] = [([], [])]
    for least in range(1, len(known) + 1):
        chosen = [kind for kind in kinds if counts[kind] >= least]
        designs.append(([seed for seed, own in known.items() if chosen and {*chosen} <= {*own}], chosen))
    return max(designs, key=lambda design: (len(design[0]) > 1, len(design[0]) * len(design[1])))
