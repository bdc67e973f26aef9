"""The Vision Transformer and a review of it: what pre-training costs, as the review reckons, corrected.

The review ("Them Numbers be Shocking") prices the TPU-days of the Vision Transformer's table 2 and compares a
server of four V100s.
"""

from typing import NamedTuple

# What does not follow from what the review itself assumes.
CORRECTIONS = (
    "The review says 110 days of four V100s for ViT-L/16; 680 / 6.08 is 111.8.",
    "It says $8K for these days; nothing that it states supports that.",
)

# The review's prices of an hour, in dollars: a virtual machine (n1-standard-2), a preemptible TPUv3.
MACHINE, TPU = 0.095, 2.40
# Its speed of four V100s by that of one TPU: four in parallel, 5 % lost between them, mixed precision.
V100S, KEPT, MIXED = 4, 0.95, 1.6


class Published(NamedTuple):
    """A network, what its pre-training took (Vision Transformer, table 2), and the review's words for what
    that costs; None where it has none.
    """

    network: str
    tpu_days: float
    words: str | None = None


class Bill(NamedTuple):
    """The same reckoned out: TPU-hours, dollars of these, and days of four V100s."""

    network: str
    tpu_hours: float
    dollars: float
    v100_days: float


TRAININGS = (
    Published("ViT-H/14", 2500, "$150K"),
    Published("ViT-L/16", 680, "$41K"),
    Published("BiT-L (ResNet-152x4)", 9900),
    Published("Noisy Student (EfficientNet-L2)", 12300),
)


def bill(training: Published) -> Bill:
    """hours = 24 x days; dollars = hours x (0.095 + 2.40); V100-days = days / (4 x 0.95 x 1.6)."""
    hours = 24 * training.tpu_days
    speed = V100S * KEPT * MIXED
    return Bill(training.network, hours, hours * (MACHINE + TPU), training.tpu_days / speed)
