"""The trials of a study as evidence: which are paired, and means over seeds, kinds and test images."""

import base64
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Int

from isopix.core.choices import Pool
from isopix.recipes.isotropic import ENCODINGS
from isopix.studies.estimates import Estimate, Noise, PerImage, crossed_estimate
from isopix.studies.inductive_bias.results import Architecture, ProbedLayers, Trial

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Find = Callable[[int, Any], T | None]  # of a seed and a kind; None where there is no such network


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
    """A weight times the test accuracy of one layer; `layer` None is the best one on validation images."""

    weight: float
    probed: ProbedLayers
    layer: int | None = None

    @property
    def read_layer(self) -> int:
        return self.probed.best_layer if self.layer is None else self.layer

    @property
    def points(self) -> float:
        return 100 * self.weight * self.probed.test_accuracies[self.read_layer]


class Mean(NamedTuple):
    """A mean with its sources of error (None if it cannot be estimated), and the means of which it is one."""

    estimate: Estimate | None
    values: tuple[float, ...]  # by seed
    by_kind: dict[str, float]


UNKNOWN = Mean(None, (), {})


@dataclass
class StudyEvidence:
    """The finished trials of a study under one pool; `effects` are what it is planned to detect, by unit."""

    trials: Sequence[Trial]
    pool: Pool
    effects: Mapping[str, float] = field(default_factory=dict)
    groups: Int[np.ndarray, " B"] | None = None

    @cached_property
    def by_seed(self) -> dict[int, dict[Architecture, Trial]]:
        found: dict[int, dict[Architecture, Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.seed, {})[trial.architecture] = trial
        return dict(sorted(found.items()))

    def complete(self, trials: Sequence[Trial]) -> tuple[list[int], list[Architecture]]:
        """Return seeds and architectures of the largest complete design; only its numbers compare."""
        found: dict[int, list[Architecture]] = {}
        for trial in trials:
            found.setdefault(trial.seed, []).append(trial.architecture)
        return largest_design(dict(sorted(found.items())))

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

    def of_blocks(self, blocks: Sequence[str], read: Callable[..., T | None]) -> Find[T]:
        """Return a function that reads the networks of a seed and a kind, one of each block."""

        def find(seed: int, kind: Any) -> T | None:
            own = [self.by_seed[seed].get((block, *kind)) for block in blocks]
            return None if None in own else read(*own)

        return find

    def mean_values(self, kinds: Iterable[Hashable], find: Find[float], noise: Noise | None = None) -> Mean:
        rows, names = self._paired(kinds, find)
        return self._mean(np.array(rows, dtype=float), names, None, noise)

    def mean_accuracy(
        self, kinds: Iterable[Hashable], find: Find[list[Term]], noise: Noise | None = None
    ) -> Mean:
        """Return the mean over kinds, seeds and test images of the terms of `find(seed, kind)`, in points."""
        rows, names = self._paired(kinds, find)
        values = [[sum(term.points for term in terms) for terms in row] for row in rows]
        return self._mean(np.array(values), names, self._per_image(rows), noise)

    def _paired(self, kinds: Iterable[Hashable], find: Find[T]) -> tuple[list[list[T]], list[Hashable]]:
        kinds = list(dict.fromkeys(kinds))
        found = {
            seed: {kind: each for kind in kinds if (each := find(seed, kind)) is not None}
            for seed in self.by_seed
        }
        seeds, known = largest_design({seed: list(row) for seed, row in found.items()})
        return [[found[seed][kind] for kind in known] for seed in seeds], known

    def _mean(
        self, values: np.ndarray, kinds: Sequence[Hashable], images: PerImage | None, noise: Noise | None
    ) -> Mean:
        if not values.size:
            return UNKNOWN
        encodings = [encoding_of(kind) for kind in kinds]
        encodings = encodings if all(encodings) else []
        estimate = crossed_estimate(values, images, self.groups, noise, encodings)
        means = dict(zip(map(kind_name, kinds), values.mean(0).tolist(), strict=True))
        return Mean(estimate, tuple(values.mean(1).tolist()), means)

    def _per_image(self, rows: list[list[list[Term]]]) -> PerImage | None:
        count = sum(len(row) for row in rows)
        total: PerImage | None = None
        for term in (term for row in rows for terms in row for term in terms):
            images = correct_images(term.probed, term.read_layer)
            if images is None:
                return None
            total = (np.zeros(len(images)) if total is None else total) + (100 * term.weight / count) * images
        return total

    def accuracy_noise(self, blocks: Sequence[str], networks: int = 2) -> Noise | None:
        """Return the variance between seeds of a difference of `networks` accuracies, in points, pooled."""
        read = lambda trial: [100 * each for each in self.probes(trial).test_accuracies]  # noqa: E731
        return self._pooled(blocks, read, networks)

    def value_noise(self, blocks: Sequence[str], value: Callable[[Trial], float | None]) -> Noise | None:
        """Return the variance between seeds of the difference of two networks' values, pooled likewise."""
        return self._pooled(blocks, lambda trial: [value(trial)], 2)

    def _pooled(
        self, blocks: Sequence[str], read: Callable[[Trial], Sequence[float | None]], networks: int
    ) -> Noise | None:
        variances = list[float]()
        for architecture in dict.fromkeys(each.architecture for each in self.trials if each.block in blocks):
            own = [read(trials[architecture]) for trials in self.by_seed.values() if architecture in trials]
            known = np.array([each for each in own if None not in each], dtype=float)
            if len(known) >= 2:
                variances += [float(known.var(0, ddof=1).mean())] * (len(known) - 1)
        return Noise(networks * float(np.mean(variances)), len(variances)) if variances else None


def largest_design(known: Mapping[int, Sequence[K]]) -> tuple[list[int], list[K]]:
    """Return seeds, two if possible, and kinds such that every seed has every kind, as many as possible."""
    kinds = list(dict.fromkeys(kind for own in known.values() for kind in own))
    counts = {kind: sum(kind in own for own in known.values()) for kind in kinds}
    designs: list[tuple[list[int], list[K]]] = [([], [])]
    for least in range(1, len(known) + 1):
        chosen = [kind for kind in kinds if counts[kind] >= least]
        designs.append(([seed for seed, own in known.items() if chosen and {*chosen} <= {*own}], chosen))
    return max(designs, key=lambda design: (len(design[0]) > 1, len(design[0]) * len(design[1])))


def encoding_of(kind: Hashable) -> str:
    """Return the encoding of a kind, as of `("pix2vec", 3)`; empty if it has none."""
    return next((each for each in kind if each in ENCODINGS), "") if isinstance(kind, tuple) else ""


def kind_name(kind: Hashable) -> str:
    """Return the name of a kind, as `pix2vec-3`."""
    return "-".join(map(str, kind)) if isinstance(kind, tuple) else str(kind)
