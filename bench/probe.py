"""How long does a probe's sweep take, all layers and strengths, beside scikit-learn's on the same features?

    python bench/probe.py --images 5000 --width 128 --layers 5 --strengths 6 --repeats 3

Features are drawn with a power-law spectrum and overlapping classes, as networks' are, and standardised; both
sides get the same. `worst_excess` is how far an objective lies above ours, relatively: it tells what was
reached in the seconds.
"""

import argparse
import warnings
from collections.abc import Callable

import sklearn
import torch
from jaxtyping import Float
from measure import answer, ratio
from measure import seconds as clock
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from isopix.core.device import pick, synchronise
from isopix.core.types import Labels
from isopix.probe import logistic

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
    rounds = {
        "isopix": timed(
            lambda: fit_ours(features.to(device), labels.to(device), strengths, device), options.repeats
        )
    }
    for solver in SOLVERS:
        rounds[solver] = timed(
            lambda name=solver: fit_theirs(features, labels, strengths, name), options.repeats
        )
    size = f"{options.images} x {options.width} features"
    what = f"probe sweep of {options.layers} layers x {options.strengths} strengths, {size}"
    (ours, objectives), peer = rounds["isopix"], f"scikit-learn {sklearn.__version__}"
    answer(
        "a probe's sweep on the same features",
        device,
        ratios=[
            {
                **ratio(what, f"{peer} {solver}", ours, rounds[solver][0]),
                "worst_excess": float(((rounds[solver][1] - objectives) / objectives).max()),
            }
            for solver in SOLVERS
        ],
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
    """Seconds of each repeat, and what was reached."""
    found: list[Float[Tensor, "F S"]] = []
    return [clock(lambda: found.append(fit())) for _ in range(repeats)], found[-1]


def fit_ours(
    features: Float[Tensor, "F B D"], labels: Labels, strengths: Float[Tensor, "F S"], device: torch.device
) -> Float[Tensor, "F S"]:
    fits = logistic.fit(features, labels, strengths, num_classes=CLASSES)
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


if __name__ == "__main__":
    main()
