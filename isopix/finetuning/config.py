"""Settings of fine-tuning."""

from typing import Literal

from isopix.core.config import config
from isopix.model.pool import Pool
from isopix.model.pos_embed_resize import Interpolation


@config
class FineTuneConfig:
    """Fine-tuning; the loss is generative_weight * L_GEN + L_CLF (iGPT section 2.3: weight 1).

    `generative_weight` 0 leaves L_CLF alone, `inf` leaves L_GEN alone. The class head reads the pooled hidden
    states of `layer`, None for the last; with `residual_block` they first go through one; with `head_bias`
    the classes have biases. `dropout` applies to that vector, `label_smoothing` to the classes. Training
    stops after `patience` evaluations without a better validation accuracy, and the best weights are tested;
    with None, and where L_GEN is alone, it runs to the last step and tests the last weights.

    A masked network is trained with the masks of its objective, or with `mask_ratio` with random masks of
    that fraction of the positions; 0 masks nothing, which leaves nothing to L_GEN. `mask_at_eval`: evaluate
    on masked images too, as the released code of iGPT does. `interpolation` resizes position embeddings to
    another image size.
    """

    generative_weight: float | Literal["inf"] = 1.0
    layer: int | None = None
    pool: Pool = "mean"
    residual_block: bool = False
    head_bias: bool = False
    dropout: float = 0.0
    label_smoothing: float = 0.0
    patience: int | None = 10
    mask_ratio: float | None = None
    mask_at_eval: bool = True
    interpolation: Interpolation = "bilinear"

    def __post_init__(self) -> None:
        if not float(self.generative_weight) >= 0:
            raise ValueError(f"generative_weight {self.generative_weight} must be at least 0")
        for name in ("dropout", "label_smoothing", "mask_ratio"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"{name} {value} must lie in [0, 1)")
        if self.mask_ratio == 0 and self.has_generative_loss:
            raise ValueError(
                "mask_ratio 0 leaves no codes to predict; set a ratio above 0, mask_ratio=null for the "
                "objective's own mask, or generative_weight=0"
            )
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience {self.patience} must be at least 1")

    def label(self) -> str:
        """Return the loss, as iGPT section 2.3 writes it."""
        if not (self.has_generative_loss and self.has_class_loss):
            return "L_GEN" if self.has_generative_loss else "L_CLF"
        weight = float(self.generative_weight)
        return "L_GEN + L_CLF" if weight == 1 else f"{weight:g} · L_GEN + L_CLF"

    def layer_index(self, depth: int) -> int:
        """Return the layer that the class head reads, of a network of `depth` blocks.

        Raises ValueError for a layer that does not exist.
        """
        if self.layer is not None and not 0 <= self.layer <= depth:
            raise ValueError(f"finetune.layer {self.layer} does not exist; allowed: 0 to {depth}")
        return depth if self.layer is None else self.layer

    @property
    def early_stops(self) -> bool:
        """Whether the weights with the best validation accuracy are selected."""
        return self.has_class_loss and self.patience is not None

    @property
    def has_generative_loss(self) -> bool:
        """Whether L_GEN is part of the loss."""
        return float(self.generative_weight) > 0

    @property
    def has_class_loss(self) -> bool:
        """Whether L_CLF is part of the loss."""
        return self.generative_weight != "inf"
