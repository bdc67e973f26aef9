"""Settings of probes: which features are read, and how classifiers are fitted to them and evaluated."""

from typing import Annotated

from isopix.core.choices import Count, FeatureKind, Pool, Range, check_ranges
from isopix.core.config import config

NotNegative = Annotated[int, Range(low=0)]


@config
class ProbeConfig:
    """How features are read from a network, and how a probe is fitted to them, selected and evaluated."""

    method: str = "lbfgs"
    """Classifier: lbfgs, sgd or adam (logistic regression), ridge (regression), knn, or one of a plugin."""
    features: FeatureKind = "normed"
    """normed: activations after the next block's norm (iGPT section 2.4); residual: the residual stream."""
    pool: Pool | None = None
    """grid4: means of 4 x 4 cells; flatten: all positions; first: class token. Default: the recipe's."""
    start_token: bool = True
    """Read features with the start token; without it pixel i is read at position i, as in transformers."""
    layer: NotNegative | None = None
    """Probe this layer only. Default: all layers."""
    concat: NotNegative = 0
    """Also probe this many layers around the best one, concatenated (iGPT section 4.4: 5)."""
    mask_ensemble: NotNegative = 0
    """For masked models: classify each test image under this many random masks, by majority vote (iGPT
    section 4.6).
    """
    refit_on_validation: bool = False
    """Also refit the best layer on train + validation, at the chosen setting (iGPT section 3.1)."""
    num_resamples: Count = 1000
    """Bootstrap samples of the interval of the gain over the best baseline."""
    seed: int = 0
    """Random seed."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.concat and self.layer is not None:
            raise ValueError(f"concat {self.concat} needs all layers, and layer {self.layer} is set")
