"""Speed of the probe sweep over layers and L2 penalties, compared with scikit-learn on the same features.

    python bench/probe.py --images 5000 --width 128 --layers 5 --penalties 6 --repeats 3

Features are random and standardized, with a power-law spectrum and overlapping classes as networks have.
`max_relative_excess` is the largest relative excess of the peer's objective over that of isopix: how well it
converged.
"""

import argparse
import warnings
from collections.abc import Callable

import sklearn
import torch
from jaxtyping import Float
from measure import compare, print_result
from measure import seconds as measure_seconds
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from isopix.core.device import select_device, synchronize
from isopix.core.types import Labels
from isopix.probing import logistic

CLASSES = 10
DECAY = 1.0  # the k-th direction's variance is k^-DECAY
SIGNAL = 0.2  # standard deviation of the class centers, in standard deviations of a class
SOLVERS = ("lbfgs", "newton-cholesky")
TOLERANCE, MAX_ITERATIONS = 1e-6, 5000  # of scikit-learn

Timed = tuple[list[float], Float[Tensor, "F S"]]  # seconds of each repeat, and objectives


def main() -> None:
    options = parse()
    device = select_device(options.device)
    features, labels = random_features(options.layers, options.images, options.width)
    l2_grid = torch.logspace(-5, 0, options.penalties, dtype=torch.float64).expand(options.layers, -1)
    timed = {
        "isopix": measure(
            lambda: fit_isopix(features.to(device), labels.to(device), l2_grid, device), options.repeats
        )
    }
    for solver in SOLVERS:
        timed[solver] = measure(
            lambda name=solver: fit_sklearn(features, labels, l2_grid, name), options.repeats
        )
    size = f"{options.images} x {options.width} features"
    task = f"probe sweep of {options.layers} layers x {options.penalties} L2 penalties, {size}"
    (own, objectives), peer = timed["isopix"], f"scikit-learn {sklearn.__version__}"
    print_result(
        "probe sweep on the same features",
        device,
        comparisons=[
            {
                **compare(task, f"{peer} {solver}", own, timed[solver][0]),
                "max_relative_excess": float(((timed[solver][1] - objectives) / objectives).max()),
            }
            for solver in SOLVERS
        ],
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"images": 5000, "width": 128, "layers": 5, "penalties": 6, "repeats": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="auto")
    return parser.parse_args()


def random_features(layers: int, images: int, width: int) -> tuple[Float[Tensor, "F B D"], Labels]:
    """Return features with overlapping classes and a power-law spectrum, and their labels."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (images,), generator=rng)
    scale = torch.arange(1, width + 1) ** (-DECAY / 2)
    centers = SIGNAL * torch.randn(layers, CLASSES, width, generator=rng)
    points = (centers[:, labels] + torch.randn(layers, images, width, generator=rng)) * scale
    mixed = points @ torch.randn(layers, width, width, generator=rng)
    return (mixed - mixed.mean(1, keepdim=True)) / mixed.std(1, keepdim=True), labels


def measure(fit: Callable[[], Float[Tensor, "F S"]], repeats: int) -> Timed:
    """Return the seconds of each repeat, and the objectives."""
    fitted: list[Float[Tensor, "F S"]] = []
    return [measure_seconds(lambda: fitted.append(fit())) for _ in range(repeats)], fitted[-1]


def fit_isopix(
    features: Float[Tensor, "F B D"], labels: Labels, l2_grid: Float[Tensor, "F S"], device: torch.device
) -> Float[Tensor, "F S"]:
    fits = logistic.fit_logistic(features, labels, l2_grid, classes=CLASSES)
    synchronize(device)
    assert fits.converged.all()
    return fits.objectives.cpu()


def fit_sklearn(
    features: Float[Tensor, "F B D"], labels: Labels, l2_grid: Float[Tensor, "F S"], solver: str
) -> Float[Tensor, "F S"]:
    """Fit one classifier after another, as scikit-learn does; its solvers may use several threads."""
    objectives = torch.zeros_like(l2_grid)
    for layer, column in torch.cartesian_prod(*map(torch.arange, l2_grid.shape)).tolist():
        x, l2 = features[layer].double(), float(l2_grid[layer, column])
        model = LogisticRegression(
            C=1 / (l2 * len(labels)), solver=solver, tol=TOLERANCE, max_iter=MAX_ITERATIONS
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x.numpy(), labels.numpy())
        logs = torch.from_numpy(model.predict_log_proba(x.numpy()))
        penalty = l2 / 2 * torch.from_numpy(model.coef_).square().sum()
        objectives[layer, column] = penalty - logs.gather(1, labels[:, None]).mean()
    return objectives


if __name__ == "__main__":
    main()
