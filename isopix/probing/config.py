"""Settings of probes: which features are read, and how classifiers are fitted to them and evaluated."""

from isopix.core.config import config
from isopix.model.backbone import FeatureKind
from isopix.model.pool import Pool
from isopix.probing import adam, knn, sgd  # noqa: F401  registers them
from isopix.probing.base import ProbeMethod
from isopix.probing.linear import LbfgsProbe

# Half decades. Standardized features and a penalty on the mean loss make one grid serve every network and
# number of images: at 10 the weights all but vanish, at 1e-8 they are free. The six values of L2_EXTRA take
# most of the time, and only networks with weakly informative features need them.
L2_GRID = tuple(float(f"{10 ** (power / 2):.3g}") for power in range(-10, 3))
L2_EXTRA = tuple(float(f"{10 ** (power / 2):.3g}") for power in range(-16, -10))


@config
class ProbeConfig:
    """How features are read from a network, and how a probe is fitted to them, selected and evaluated.

    `features` are the activations after the next block's first norm ("normed", iGPT section 2.4) or the
    residual stream itself ("residual"); `pool` reduces the positions of an image to one vector. Without
    `start_token` an autoregressive network reads pixel i at position i, as the feature path of Hugging Face's
    ImageGPT does. `layer` probes that layer alone; None probes all. `concat` also probes that many
    consecutive layers around the best one, concatenated (iGPT section 4.4: 5).

    With `mask_ensemble` K > 0 a masked network reads every image under a random mask, and each test image
    under K masks whose predictions are combined by majority vote (iGPT section 4.6); 0 masks nothing.

    `l2_grid` are the L2 penalties to select from; where validation selects the smallest of them, those of
    `l2_extra` are tried too. `refit_on_validation` also fits the best layer to train and validation together,
    at the selected setting (iGPT section 3.1). The interval of the gain over the best
    baseline is of `num_resamples` bootstrap samples.
    """

    method: ProbeMethod = LbfgsProbe()

    features: FeatureKind = "normed"
    pool: Pool = "mean"
    start_token: bool = True
    layer: int | None = None
    concat: int = 0
    mask_ensemble: int = 0
    l2_grid: tuple[float, ...] = L2_GRID
    l2_extra: tuple[float, ...] = L2_EXTRA
    refit_on_validation: bool = False
    num_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.l2_grid or not all(0 < l2 < float("inf") for l2 in self.l2_grid):
            raise ValueError(f"l2_grid {self.l2_grid} must be one or more positive numbers")
        if not all(0 < l2 < min(self.l2_grid) for l2 in self.l2_extra):
            raise ValueError(f"l2_extra {self.l2_extra} must be positive, and below all of l2_grid")
        for name in ("mask_ensemble", "concat", "layer"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} {getattr(self, name)} must be at least 0")
        if self.concat and self.layer is not None:
            raise ValueError(f"concat {self.concat} needs all layers, and layer {self.layer} is set")
        if self.num_resamples < 1:
            raise ValueError(f"num_resamples {self.num_resamples} must be at least 1")
