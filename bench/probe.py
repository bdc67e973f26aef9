"""How long does a probe's sweep take, all layers and strengths, beside scikit-learn's on the same features?

    python bench/probe.py --images 5000 --width 128 --layers 5 --strengths 6 --repeats 3

Features are drawn with a power-law spectrum and overlapping classes, as networks' are, and standardised; both
sides get the same. `worst_excess` is how far an objective lies above ours, relatively: it tells what was
reached in the seconds.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable

import sklearn
import torch
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from isopix.core.device import environment, pick, synchronise
from isopix.core.types import Labels
from isopix.transfer import logistic

CLASSES = 10
DECAY = 1.0  # the k-th direction's variance is k^-DECAY
SIGNAL = 0.2  # deviation of the classes' centres, in deviations of a class
SOLVERS = ("lbfgs", "newton-cholesky")
TOLERANCE, LIMIT = 1e-6, 5000  # of scikit-learn's fits

Rounds = tuple[list[float], Float[Tensor, "F S"]]  # seconds of each repeat, and objectives


def main() -> None:
    options = parse()
    device = pick(options.device)
    features, labels = draw(options.layers, options.images, options.width)
    strengths = torch.logspace(-5, 0, options.strengths, dtype=torch.float64).expand(options.layers, -1)
    ours = timed(lambda: fit_ours(features.to(device), labels.to(device), strengths, device), options.repeats)
    rows = {"isopix": row(ours, ours)}
    for solver in SOLVERS:
        theirs = timed(lambda name=solver: fit_theirs(features, labels, strengths, name), options.repeats)
        rows[f"scikit-learn {solver}"] = row(theirs, ours)
    print(
        json.dumps(
            {"options": vars(options), **environment(device), "sklearn": sklearn.__version__, "rows": rows},
            indent=2,
        )
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"images": 5000, "width": 128, "layers": 5, "strengths": 6, "repeats": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="auto")
    return parser.parse_args()


def draw(layers: int, images: int, width: int) -> tuple[Float[Tensor, "F B D"], Labels]:
    """Overlapping classes in features whose directions are of very different widths."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (images,), generator=random)
    scale = torch.arange(1, width + 1) ** (-DECAY / 2)
    centres = SIGNAL * torch.randn(layers, CLASSES, width, generator=random)
    points = (centres[:, labels] + torch.randn(layers, images, width, generator=random)) * scale
    mixed = points @ torch.randn(layers, width, width, generator=random)
    return (mixed - mixed.mean(1, keepdim=True)) / mixed.std(1, keepdim=True), labels


def timed(fit: Callable[[], Float[Tensor, "F S"]], repeats: int) -> Rounds:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        objectives = fit()
        seconds.append(time.perf_counter() - start)
    return seconds, objectives


def fit_ours(
    features: Float[Tensor, "F B D"], labels: Labels, strengths: Float[Tensor, "F S"], device: torch.device
) -> Float[Tensor, "F S"]:
    fits = logistic.fit(features, labels, strengths, classes=CLASSES)
    synchronise(device)
    assert fits.converged.all()
    return fits.objectives.cpu()


def fit_theirs(
    features: Float[Tensor, "F B D"], labels: Labels, strengths: Float[Tensor, "F S"], solver: str
) -> Float[Tensor, "F S"]:
    """One fit after another, as scikit-learn has it; its own solvers use all the threads they want."""
    objectives = torch.zeros_like(strengths)
    for layer, column in torch.cartesian_prod(*map(torch.arange, strengths.shape)).tolist():
        x, strength = features[layer].double(), float(strengths[layer, column])
        model = LogisticRegression(
            C=1 / (strength * len(labels)), solver=solver, tol=TOLERANCE, max_iter=LIMIT
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x.numpy(), labels.numpy())
        logs = torch.from_numpy(model.predict_log_proba(x.numpy()))
        penalty = strength / 2 * torch.from_numpy(model.coef_).square().sum()
        objectives[layer, column] = penalty - logs.gather(1, labels[:, None]).mean()
    return objectives


def row(rounds: Rounds, ours: Rounds) -> dict[str, float | int]:
    seconds, objectives = rounds
    return {
        "n": len(seconds),
        "median_s": round(statistics.median(seconds), 3),
        "spread_s": round(max(seconds) - min(seconds), 3),
        "times_ours": round(statistics.median(seconds) / statistics.median(ours[0]), 2),
        "worst_excess": float(((objectives - ours[1]) / ours[1]).max()),
    }


if __name__ == "__main__":
    main()
