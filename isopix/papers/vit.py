"""Cost of pre-training the Vision Transformer: the figures of a review, recomputed and corrected.

The review ("Them Numbers be Shocking") prices the TPU-days of table 2 of the Vision Transformer paper, and
compares them with a server of four V100 GPUs.
"""

from typing import NamedTuple

from isopix.papers.tables import PublishedRow, Value

# Where the review's text does not follow from its own assumptions.
CORRECTIONS = (
    "The review states 110 days of four V100s for ViT-L/16; 680 / 6.08 is 111.8.",
    "It states $8K for these days; nothing in the review supports this number.",
)

# The review's prices in dollars per hour: a virtual machine (n1-standard-2) and a preemptible TPUv3.
VM_PRICE, TPU_PRICE = 0.095, 2.40
# The review's speed of a server relative to one TPU: four V100s, 5 % lost in parallel, mixed precision.
NUM_V100, PARALLEL_EFFICIENCY, MIXED_PRECISION_SPEEDUP = 4, 0.95, 1.6


class PublishedTraining(NamedTuple):
    """A model, its pre-training time (Vision Transformer, table 2), and the price that the review states for
    it, if any.
    """

    network: str
    tpu_days: float
    review_price: str | None = None


class TrainingPrice(NamedTuple):
    """TPU-hours, their price in dollars, and days on a server of four V100s."""

    network: str
    tpu_hours: float
    dollars: float
    v100_days: float


PUBLISHED_TRAININGS = (
    PublishedTraining("ViT-H/14", 2500, "$150K"),
    PublishedTraining("ViT-L/16", 680, "$41K"),
    PublishedTraining("BiT-L (ResNet-152x4)", 9900),
    PublishedTraining("Noisy Student (EfficientNet-L2)", 12300),
)


def training_price(training: PublishedTraining) -> TrainingPrice:
    """hours = 24 * days; dollars = hours * (0.095 + 2.40); V100 days = days / (4 * 0.95 * 1.6)."""
    hours = 24 * training.tpu_days
    speedup = NUM_V100 * PARALLEL_EFFICIENCY * MIXED_PRECISION_SPEEDUP
    return TrainingPrice(training.network, hours, hours * (VM_PRICE + TPU_PRICE), training.tpu_days / speedup)


# Appendix B.1.2: 79.9 %, 2 % above training from scratch and 4 % below supervised pre-training.
SELF_SUPERVISED = (
    PublishedRow("ViT-B/16, masked patch prediction", "imagenet-1k", {"accuracy": Value(79.9)}),
    PublishedRow("ViT-B/16 from scratch", "imagenet-1k", {"accuracy": "2 points lower"}),
    PublishedRow("ViT-B/16, supervised pre-training", "imagenet-1k", {"accuracy": "4 points higher"}),
)
