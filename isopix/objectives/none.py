"""No objective: a network that was trained elsewhere, with nothing of it left to predict codes."""

import torch

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Images, PositionIndices, Scalar, Tokens
from isopix.model.heads import Likelihood
from isopix.model.masking import MaskingSpec, ZeroMaskingSpec
from isopix.objectives.base import ObjectiveSpec, TrainingBatch


@register("none")
class NoObjective(ObjectiveSpec):
    """Masks nothing and predicts nothing: an imported network that was trained on class labels, or that came
    without its decoder. It can be probed, analyzed and fine-tuned on classes.
    """

    def label(self) -> str:
        return "unknown"

    @property
    def corruption(self) -> MaskingSpec:
        return ZeroMaskingSpec()

    def decoded_fraction(self, positions: int, num_codes: int) -> float:
        return 0.0

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        """Return a batch without a mask and with nothing in the loss."""
        targets = codec.encode(images)
        nothing = torch.zeros_like(targets[..., :1], dtype=torch.bool)
        return TrainingBatch.with_equal_weights(images, None, targets, nothing)

    def decoded_loss(
        self, head: Likelihood, tokens: Tokens, batch: TrainingBatch, positions: PositionIndices | None = None
    ) -> Scalar:
        """Raises ValueError: there is no loss."""
        raise ValueError(
            "this network has no pre-training objective and no loss of codes; it can be probed, analyzed and "
            "fine-tuned on classes (generative_weight=0)"
        )

    decoded_eval_loss = decoded_loss
