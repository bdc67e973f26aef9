"""Settings of probes: which features are read, and how classifiers are fitted to them and evaluated."""

from typing import Annotated

from cyclopts import Parameter

from isopix.core.choices import Count, FeatureKind, NonNegative, OfPaper, Pool, check_ranges
from isopix.core.config import config


@config
class ProbeConfig:
    """How features are read from a network, and how a probe is fitted to them, selected and evaluated."""

    method: str = "lbfgs"
    """Classifier: lbfgs, sgd or adam (logistic regression), ridge (regression), knn, attentive, or one of a
    plugin.
    """
    features: OfPaper[FeatureKind] = "normed"
    """normed: activations after the next block's norm (iGPT section 2.4); residual: the residual stream."""
    pool: Pool | None = None
    """grid4: means of 4 x 4 cells; flatten: all positions; first: class token. Default: the recipe's."""
    start_token: OfPaper[bool] = True
    """Prepend the start token; without it, features of pixel i are read at input position i, as Hugging Face
    transformers does.
    """
    layer: NonNegative | None = None
    """Probe this layer only. Default: all layers."""
    concat: OfPaper[NonNegative] = 0
    """Also probe this many layers around the best one, concatenated (iGPT section 4.4: 5)."""
    mask_ensemble: OfPaper[NonNegative] = 0
    """For masked models: majority vote over this many random masks of each image (iGPT section 4.6)."""
    refit_on_validation: OfPaper[bool] = False
    """Also refit the best layer on train + validation, with the chosen settings (iGPT section 3.1)."""
    seed: int = 0
    """Random seed."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.concat and self.layer is not None:
            raise ValueError(f"concat {self.concat} needs all layers, and layer {self.layer} is set")


@config
class FewLabelsConfig:
    """Settings of probes and fine-tuning with few labels."""

    labels: Annotated[tuple[int | str, ...], Parameter(consume_multiple=True)] = ()
    """Numbers of labeled images per class, or percentages such as 10%, for which to report the test error."""
    subsets: OfPaper[Count] = 5
    """Number of random subsets for each number of labels."""
    finetune_steps: OfPaper[NonNegative] = 0
    """Also fine-tune the run on every subset, for at most this many steps."""
