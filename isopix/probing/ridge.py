"""Ridge regression to one-hot targets, in closed form: one eigendecomposition serves every L2 penalty.

Over weights W [K D] and intercepts b [K], minimize

    mean over images of |W x + b - onehot(label)|^2  +  l2 |W|^2   (b is not penalized)

scikit-learn's `Ridge` minimizes N times this, with alpha = l2 N, but decomposes anew for each penalty and
layer, and on the CPU alone. Targets of -1 and 1 would double the weights and change no prediction.
"""

import torch
from einops import rearrange
from torch.nn import functional as F

from isopix.core.types import Labels
from isopix.probing.feature_splits import Features
from isopix.probing.logistic import L2Penalties, LinearFits, decomposed_covariance


def fit_ridge(features: Features, labels: Labels, l2: L2Penalties, *, num_classes: int) -> LinearFits:
    """Find the minimum for each layer and each penalty, in float64 on the device of the features.

    With X centered and X'X / N = V diag(s) V', the weights are those of the targets along V, shrunk by
    1 / (s + l2). `grad_norms` are the norms of the gradient there: rounding errors.
    """
    l2 = l2.to(features.device, torch.float64)
    count, exact = features.shape[1], features.double()
    center = exact.mean(1)
    centered = exact - center[:, None]
    targets = F.one_hot(labels.to(features.device), num_classes).double()
    frequencies = targets.mean(0)
    covariance, variances, axes = decomposed_covariance(centered)
    correlation = centered.mT @ (targets - frequencies) / count  # [F D K]
    shrink = 1 / (rearrange(variances, "f a -> f 1 a 1") + rearrange(l2, "f s -> f s 1 1"))
    columns = axes[:, None] @ (shrink * (axes.mT @ correlation)[:, None])  # [F S D K]
    penalties = rearrange(l2, "f s -> f s 1 1") * columns
    if covariance is None:
        product = centered.mT[:, None] @ (centered[:, None] @ columns) / count
    else:
        product = covariance[:, None] @ columns
    half_gradient = product + penalties - correlation[:, None]
    # |X W|^2 / N is the trace of W' cov W, so that no residual needs to be formed.
    explained = (columns * (product - 2 * correlation[:, None])).sum((-1, -2))
    total = (targets - frequencies).square().sum() / count
    grad_norms = 2 * half_gradient.flatten(2).norm(dim=-1)
    return LinearFits(
        weights=columns.mT.contiguous(),
        intercepts=frequencies - torch.einsum("fsdk,fd->fsk", columns, center),
        l2=l2,
        objectives=total + explained + (penalties * columns).sum((-1, -2)),
        grad_norms=grad_norms,
        max_grad_norms=torch.full_like(grad_norms, torch.inf),
        iterations=torch.ones_like(l2, dtype=torch.long),
        converged=columns.isfinite().flatten(2).all(-1),
    )
