"""Speed of the probe sweep over layers and L2 penalties, next to scikit-learn on the same features.

Features are random and standardized, with a power-law spectrum and overlapping classes as networks have.
scikit-learn fits one classifier after another: a few of the sweep are timed, and compared per fit.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import sklearn
import torch
from jaxtyping import Float
from speed.benchmark import OWN, TINY, Benchmark, Measured, Size
from speed.numerics import NumericsError
from speed.timing import Stopwatch, Work
from torch import Tensor

from isopix.core.types import Labels
from isopix.probing import logistic
from isopix.probing.splits import Features

CLASSES = 10
DECAY = 1.0  # the k-th direction's variance is k^-DECAY
SIGNAL = 0.2  # standard deviation of the class centers, in standard deviations of a class
SOLVERS = ("lbfgs", "newton-cholesky")
TOLERANCE, MAX_ITERATIONS = 1e-6, 5000  # of scikit-learn
MAX_EXCESS = 1e-6  # of our objective over scikit-learn's, relative


@dataclass(frozen=True, kw_only=True)
class SweepSize(Size):
    """A sweep of layers x penalties over features [images x width], and how many fits the peer does."""

    layers: int
    penalties: int
    images: int
    width: int
    peer_fits: int

    def label(self) -> str:
        return f"{self.layers} layers x {self.penalties} L2 penalties, {self.images} x {self.width} features"


def measure_probe_sweep(size: SweepSize, watch: Stopwatch) -> Measured:
    """Compare the seconds per fit; our objectives must not be above those of scikit-learn."""
    features, labels = random_features(size.layers, size.images, size.width)
    l2_grid = torch.logspace(-5, 0, size.penalties, dtype=torch.float64).expand(size.layers, -1)
    every = torch.cartesian_prod(torch.arange(size.layers), torch.arange(size.penalties)).tolist()
    fits = every[:: max(1, len(every) // size.peer_fits)][: size.peer_fits]
    on_device = features.to(watch.device), labels.to(watch.device)
    objectives = fit_isopix(*on_device, l2_grid)
    checked: list[str] = []

    def check(found: object) -> None:
        assert isinstance(found, Tensor)
        ours = torch.stack([objectives[layer, column] for layer, column in fits])
        checked.append(require_no_excess(ours, found))

    fit = partial(fit_sklearn, features, labels, l2_grid, fits)
    peer = {
        solver: Work(call=partial(fit, solver=solver), items=len(fits), check=check) for solver in SOLVERS
    }
    own = {"": Work(call=lambda: fit_isopix(*on_device, l2_grid), items=len(every))}
    timed = watch.alternate({OWN: own, f"scikit-learn {sklearn.__version__}": peer})
    return Measured(checked="; ".join(checked), times=timed.times, errors=timed.errors, item="fit")


def random_features(layers: int, images: int, width: int) -> tuple[Features, Labels]:
    """Return features with overlapping classes and a power-law spectrum, and their labels."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (images,), generator=rng)
    scale = torch.arange(1, width + 1) ** (-DECAY / 2)
    centers = SIGNAL * torch.randn(layers, CLASSES, width, generator=rng)
    points = (centers[:, labels] + torch.randn(layers, images, width, generator=rng)) * scale
    mixed = points @ torch.randn(layers, width, width, generator=rng)
    return (mixed - mixed.mean(1, keepdim=True)) / mixed.std(1, keepdim=True), labels


def fit_isopix(features: Features, labels: Labels, l2_grid: Float[Tensor, "F S"]) -> Float[Tensor, "F S"]:
    """Return the objectives of all fits. Raises NumericsError if one has not converged."""
    fits = logistic.fit_logistic(features, labels, l2_grid.to(features.device), num_classes=CLASSES)
    if not fits.converged.all():
        raise NumericsError(f"{int((~fits.converged).sum())} fits of the sweep have not converged")
    return fits.objectives.cpu()


def fit_sklearn(
    features: Features,
    labels: Labels,
    l2_grid: Float[Tensor, "F S"],
    fits: Sequence[Sequence[int]],
    *,
    solver: str,
) -> Float[Tensor, " fits"]:
    """Return the objectives of these fits (layer, penalty), one after another; they may use threads."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415  its import takes a second
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    objectives = []
    for layer, column in fits:
        x, l2 = features[layer].double(), float(l2_grid[layer, column])
        model = LogisticRegression(
            C=1 / (l2 * len(labels)), solver=solver, tol=TOLERANCE, max_iter=MAX_ITERATIONS
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x.numpy(), labels.numpy())
        logs = torch.from_numpy(model.predict_log_proba(x.numpy()))
        penalty = l2 / 2 * torch.from_numpy(model.coef_).square().sum()
        objectives.append(penalty - logs.gather(1, labels[:, None]).mean())
    return torch.stack(objectives)


def require_no_excess(ours: Float[Tensor, " fits"], theirs: Float[Tensor, " fits"]) -> str:
    """Return by how much our objectives, which are to be minimized, are above those of the peer at most.

    Raises NumericsError if that is more than a millionth.
    """
    excess = float(((ours - theirs) / theirs).max())
    if not excess <= MAX_EXCESS:
        raise NumericsError(f"the objective of a fit is {excess:.1e} above scikit-learn's, relative")
    return f"objectives at most {excess:.0e} above scikit-learn's"


SIZES = {
    "cpu": SweepSize(layers=5, penalties=6, images=5000, width=128, peer_fits=6),
    "cuda": SweepSize(layers=25, penalties=45, images=10_000, width=512, peer_fits=3),
    TINY: SweepSize(layers=2, penalties=2, images=100, width=8, peer_fits=2),
}
BENCHMARKS = (
    Benchmark("probe.sweep", "probe sweep", "scikit-learn", measure_probe_sweep, SIZES, ("sklearn",)),
)
