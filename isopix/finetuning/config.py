"""Settings of fine-tuning."""

from typing import Literal

from isopix.core.choices import Count, Dropout, check_ranges
from isopix.core.config import config
from isopix.model.pool import Pool
from isopix.model.positions import Interpolation


@config
class FineTuneConfig:
    """Fine-tuning; the loss is generative_weight * L_GEN + L_CLF (iGPT section 2.3: weight 1)."""

    generative_weight: float | Literal["inf"] = 1.0
    """Weight of L_GEN; 0 leaves L_CLF alone, `inf` leaves L_GEN alone."""
    layer: int | None = None
    """Layer that the class head reads; null: the last."""
    pool: Pool = "mean"
    """How the positions of an image become one vector."""
    residual_block: bool = False
    """Whether this vector goes through a residual block first (PatchFormer section 2.2)."""
    head_bias: bool = False
    """Whether the classes have biases."""
    dropout: Dropout = 0.0
    """Dropout of this vector, in training."""
    label_smoothing: Dropout = 0.0
    """Label smoothing of the classes."""
    patience: Count | None = 10
    """Evaluations without a better validation accuracy before the best weights are kept; null: the last."""
    mask_ratio: Dropout | None = None
    """Fraction of the positions masked at random; 0 masks none, null uses the masks of the objective."""
    mask_at_eval: bool = True
    """Whether images are masked in evaluations too, as in the released code of iGPT."""
    interpolation: Interpolation = "bilinear"
    """How position embeddings are resized to another image size."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if not float(self.generative_weight) >= 0:
            raise ValueError(f"generative_weight {self.generative_weight} must be at least 0")
        if self.mask_ratio == 0 and self.has_generative_loss:
            raise ValueError(
                "mask_ratio 0 leaves no codes to predict; set a ratio above 0, mask_ratio=null for the "
                "objective's own mask, or generative_weight=0"
            )

    def label(self) -> str:
        """Return the loss, as iGPT section 2.3 writes it."""
        if not (self.has_generative_loss and self.has_class_loss):
            return "L_GEN" if self.has_generative_loss else "L_CLF"
        weight = float(self.generative_weight)
        return "L_GEN + L_CLF" if weight == 1 else f"{weight:g} · L_GEN + L_CLF"

    def layer_index(self, depth: int) -> int:
        """Return the layer that the class head reads. Raises ValueError if it does not exist."""
        if self.layer is not None and not 0 <= self.layer <= depth:
            raise ValueError(f"finetune.layer {self.layer} does not exist; allowed: 0 to {depth}")
        return depth if self.layer is None else self.layer

    @property
    def early_stops(self) -> bool:
        """Whether the weights with the best validation accuracy are selected."""
        return self.has_class_loss and self.patience is not None

    @property
    def loss_weights(self) -> dict[str, float]:
        """Weights of w L_GEN + L_CLF (iGPT section 2.3) by metric; a loss of weight 0 is not computed."""
        if self.generative_weight == "inf":
            return {"loss_nats": 1.0}
        both = {"loss_nats": self.generative_weight, "class_nats": 1.0}
        return {name: weight for name, weight in both.items() if weight}

    @property
    def has_generative_loss(self) -> bool:
        """Whether L_GEN is part of the loss."""
        return "loss_nats" in self.loss_weights

    @property
    def has_class_loss(self) -> bool:
        """Whether L_CLF is part of the loss."""
        return "class_nats" in self.loss_weights
