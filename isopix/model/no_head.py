"""No head: a network without anything that predicts codes."""

from typing import ClassVar

from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Codes, Logits, Tokens
from isopix.model.heads import HeadSpec, Likelihood, Nats

NO_HEAD = (
    "this network has no decoder: nothing in it predicts codes, so that it has no loss and cannot sample or "
    "reconstruct; it can be probed, analyzed and fine-tuned on classes (generative_weight=0)"
)


@register("none")
class NoHeadSpec(HeadSpec):
    """No head: a network that was imported without anything that predicts codes."""

    predicts_codes: ClassVar[bool] = False

    def label(self) -> str:
        return "none"

    def build(self, codec: Codec, width: int) -> "NoHead":
        return NoHead()

    def flops_per_token(self, codec: Codec, width: int) -> int:
        return 0


class NoHead(Likelihood):
    """Raises ValueError wherever codes are to be predicted."""

    def require_codes(self) -> None:
        raise ValueError(NO_HEAD)

    def forward(self, tokens: Tokens) -> Tensor:
        raise ValueError(NO_HEAD)

    def nll(self, tokens: Tokens, targets: Codes, label_smoothing: float = 0.0) -> Nats:
        raise ValueError(NO_HEAD)

    def mode(self, tokens: Tokens) -> Codes:
        raise ValueError(NO_HEAD)

    def logits(self, tokens: Tokens) -> Logits:
        raise ValueError(NO_HEAD)
