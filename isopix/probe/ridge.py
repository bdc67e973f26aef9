"""Ridge regression to one-hot targets, in closed form: one eigendecomposition serves every strength.

Over weights W [K D] and intercepts b [K], minimise

    mean over images of |W x + b - onehot(label)|^2  +  strength |W|^2   (b is free)

scikit-learn's `Ridge` minimises N times this, with alpha = strength N. Targets of -1 and 1 would double the
weights, and change no answer.
"""

import torch
from einops import rearrange
from torch.nn import functional as F

from isopix.core.types import Labels
from isopix.probe.logistic import Features, Fits, Strengths


def fit(features: Features, labels: Labels, strengths: Strengths, *, classes: int) -> Fits:
    """The minimum for each set of features and each strength, computed in float64 where the features are.

    With X centred and X'X / N = V diag(s) V', the weights are those of the targets along V, shrunk by
    1 / (s + strength). `gradients` are the lengths of the gradient there: what rounding leaves of zero.
    """
    strengths = strengths.to(features.device, torch.float64)
    count, exact = features.shape[1], features.double()
    centre = exact.mean(1)
    centred = exact - centre[:, None]
    targets = F.one_hot(labels.to(features.device), classes).double()
    shares = targets.mean(0)
    covariance = centred.mT @ centred / count
    towards = centred.mT @ (targets - shares) / count  # [F D K]
    spread, axes = torch.linalg.eigh(covariance)
    shrink = 1 / (rearrange(spread.clamp_min(0), "f a -> f 1 a 1") + rearrange(strengths, "f s -> f s 1 1"))
    columns = axes[:, None] @ (shrink * (axes.mT @ towards)[:, None])  # [F S D K]
    penalties = rearrange(strengths, "f s -> f s 1 1") * columns
    half = covariance[:, None] @ columns + penalties - towards[:, None]
    # |X W|^2 / N is the trace of W' cov W, so that no residual need be formed.
    explained = (columns * (covariance[:, None] @ columns - 2 * towards[:, None])).sum((-1, -2))
    whole = (targets - shares).square().sum() / count
    gradients = 2 * half.flatten(2).norm(dim=-1)
    return Fits(
        weights=columns.mT.contiguous(),
        intercepts=shares - torch.einsum("fsdk,fd->fsk", columns, centre),
        strengths=strengths,
        objectives=whole + explained + (penalties * columns).sum((-1, -2)),
        gradients=gradients,
        limits=torch.full_like(gradients, torch.inf),
        steps=torch.ones_like(strengths, dtype=torch.long),
        converged=columns.isfinite().flatten(2).all(-1),
    )
