"""Published numbers of the papers and of their authors' code; in per cent unless stated.

Image GPT contradicts itself: table 4 holds errors though its caption says performance; Mean Teacher's two
numbers belong to 250 and 4,000 labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """A number in the unit of its column, with its standard deviation if there is one, or a text."""

    value: float | str
    std: float | None = None

    @property
    def number(self) -> float:
        assert not isinstance(self.value, str), self.value
        return self.value


@dataclass(frozen=True)
class TableRow:
    """The results of one method on one dataset, by column; cells that are not known are missing.

    The `source` of published ones is where they stand if not in the table; `model` is of measured ones.
    """

    method: str
    data: str
    cells: Mapping[str, Value]
    source: str = ""
    measured: bool = False
    model: str = ""


@dataclass(frozen=True)
class PublishedLoss:
    """A test loss in nats per predicted code, published in `source` after `step` steps, by a `protocol`."""

    nats: float
    source: str = "the README of OpenAI's image-gpt"
    protocol: str = "ImageNet's validation images, shorter side 224, center crop, then 32×32; all positions"
    step: int = 1_000_000


def row(method: str, data: str, cells: Mapping[str, float | str], source: str = "") -> TableRow:
    """Return a row of numbers without deviations, and of text."""
    return TableRow(method, data, {name: Value(each) for name, each in cells.items()}, source)


def single_column(rows: Mapping[str, Mapping[str, float]]) -> tuple[TableRow, ...]:
    """Return the rows of a table of accuracies and transfers, given by dataset and method."""
    return tuple(
        row(method, data, {ACCURACY: number, TRANSFER: _TRANSFERS.get(method, "none")})
        for data, methods in rows.items()
        for method, number in methods.items()
    )


# Image GPT (Chen et al. 2020): tables 1 to 4, and the numbers that its text gives for figures 2 to 4.
ACCURACY, TRANSFER = "accuracy", "transfer from ImageNet"
PROBE, PROBE_VOTE, FINETUNED, FINETUNED_VOTE = "probe", "probe, 5 masks", "fine-tuned", "fine-tuned, 5 masks"
IR, PARAMETERS, FEATURES = "input resolution", "parameters (M)", "features"
BEST_LAYER, LAST_LAYER, DROP = "best layer", "last layer", "drop at the last layer"
STEPS, LOSS = "steps", "validation loss"
NUM_LABELS = (40, 250, 4000)
IMAGENET = "imagenet-1k"

_LOSSES = {"igpt.s": 2.0895, "igpt.m": 2.0614, "igpt.l": 2.0466}
TEST_LOSSES = {recipe: PublishedLoss(nats) for recipe, nats in _LOSSES.items()}

# How methods of tables 1 and 3 are pre-trained on ImageNet, if they are.
_TRANSFERS = dict.fromkeys(("SimCLR", "iGPT-L", "AMDIM-L"), "unsupervised")
_TRANSFERS |= dict.fromkeys(("ResNet-152", "GPipe", "EfficientNet"), "supervised")

IGPT_TABLE_1 = single_column(
    {
        "cifar10": {"ResNet-152": 94.0, "SimCLR": 95.3, "iGPT-L": 96.3},
        "cifar100": {"ResNet-152": 78.0, "SimCLR": 80.2, "iGPT-L": 82.8},
        "stl10": {"AMDIM-L": 94.2, "iGPT-L": 95.5},
    }
)

# Method, input resolution (empty: ImageNet's), millions of parameters, features, accuracy.
_TABLE_2 = (
    ("Rotation", "", 86, 8192, 55.4),
    ("iGPT-L", "32×32", 1362, 1536, 60.3),
    ("BigBiGAN", "", 86, 8192, 61.3),
    ("iGPT-L", "48×48", 1362, 1536, 65.2),
    ("AMDIM", "", 626, 8192, 68.1),
    ("MoCo", "", 375, 8192, 68.6),
    ("iGPT-XL", "64×64", 6801, 3072, 68.7),
    ("SimCLR", "", 24, 2048, 69.3),
    ("CPC v2", "", 303, 8192, 71.5),
    ("iGPT-XL, 5 layers", "64×64", 6801, 15360, 72.0),
    ("SimCLR", "", 375, 8192, 76.5),
)
IGPT_TABLE_2 = (
    *(
        row(
            method, IMAGENET, {IR: size, PARAMETERS: f"{millions:,}", FEATURES: f"{width:,}", ACCURACY: found}
        )
        for method, size, millions, width, found in _TABLE_2
    ),
    row("iGPT-S", IMAGENET, {IR: "32×32", ACCURACY: 41.9}, "section 4.4"),
    row("iGPT-M", IMAGENET, {IR: "32×32", ACCURACY: 54.5}, "section 4.4"),
)

IGPT_TABLE_3 = single_column(
    {
        "cifar10": {"AutoAugment": 98.5, "SimCLR": 98.6, "GPipe": 99.0, "iGPT-L": 99.0},
        "cifar100": {"iGPT-L": 88.5, "SimCLR": 89.0, "AutoAugment": 89.3, "EfficientNet": 91.7},
    }
)

IGPT_IMAGENET_FINETUNING = (
    row("iGPT-L", IMAGENET, {IR: "32×32", ACCURACY: 66.3}, "section 4.5"),
    row("iGPT-L, larger images", IMAGENET, {IR: "48×48", ACCURACY: 72.6}, "section 4.5"),
    row("iGPT-L from scratch", IMAGENET, {IR: "48×48", ACCURACY: 53.2}, "section 4.5"),
    row("Isometric Neural Nets", IMAGENET, {IR: "28×28", ACCURACY: 70.2}, "section 4.5"),
)

# Table 4: test error on CIFAR-10 by number of labels, mean and standard deviation of five subsets.
LOW_DATA: dict[str, dict[int, tuple[float, float]]] = {
    "Mean Teacher": {250: (32.3, 2.3), 4000: (9.2, 0.2)},
    "MixMatch": {40: (47.5, 11.5), 250: (11.0, 0.9), 4000: (6.4, 0.1)},
    "iGPT-L": {40: (26.8, 1.5), 250: (12.4, 0.6), 4000: (5.7, 0.1)},
    "UDA": {40: (29.0, 5.9), 250: (8.8, 1.1), 4000: (4.9, 0.2)},
    "FixMatch RA": {40: (13.8, 3.4), 250: (5.1, 0.7), 4000: (4.3, 0.1)},
    "FixMatch CTA": {40: (11.4, 3.4), 250: (5.1, 0.3), 4000: (4.3, 0.2)},
}
IGPT_TABLE_4 = (
    *(
        TableRow(method, "cifar10", {f"{count:,} labels": Value(*each) for count, each in errors.items()})
        for method, errors in LOW_DATA.items()
    ),
    row("iGPT-L, fine-tuned", "cifar10", {"40 labels": 57.9}, "section 4.7: 42.1% accuracy"),
)

# The figure has no numbers; these stand in the text and in table 1.
IGPT_FIGURE_2 = (
    row("iGPT-L", "cifar10", {BEST_LAYER: 96.3, DROP: 2.4}, "table 1 and section 4.1"),
    row("iGPT-L", "cifar100", {BEST_LAYER: 82.8}, "table 1"),
    row("iGPT-L", "stl10", {BEST_LAYER: 95.5}, "table 1"),
)

# The loss is that of OpenAI's test images, ImageNet's validation set.
IGPT_FIGURE_3 = tuple(
    row(
        f"iGPT-{size}",
        IMAGENET,
        {STEPS: "all", LOSS: loss.nats, ACCURACY: accuracy},
        "README of OpenAI's image-gpt; section 4.4 and table 2",
    )
    for size, loss, accuracy in zip("SML", TEST_LOSSES.values(), (41.9, 54.5, 60.3), strict=True)
)

_UNCHANGED = {PROBE_VOTE: "unchanged", FINETUNED_VOTE: "unchanged"}
_ALMOST_ONE = {PROBE_VOTE: "almost +1", FINETUNED_VOTE: "almost +1"}
IGPT_FIGURE_4 = (
    row("autoregressive", "cifar10", {PROBE: 96.3, FINETUNED: 99.0}, "tables 1 and 3"),
    row("BERT", "cifar10", {PROBE: "below 95.3", FINETUNED: 98.6, **_UNCHANGED}, "section 4.6"),
    row("autoregressive", IMAGENET, {PROBE: 60.3, FINETUNED: 66.3}, "table 2 and section 4.5"),
    row("BERT", IMAGENET, {PROBE: "6 points lower", FINETUNED: 66.5, **_ALMOST_ONE}, "section 4.6"),
)

# PatchFormer (ICLR 2020 submission): tables 1 and 2, on ImageNet.
FRACTIONS = ("1%", "10%", "20%")  # of the labels
ONE, TEN, TWENTY = (f"{fraction} of the labels" for fraction in FRACTIONS)
PATCHFORMER_TOP_1 = (
    row("CPC++", IMAGENET, {}, "not known"),
    row("Selfie", IMAGENET, {TEN: 61.9, TWENTY: 67.1}),
    row("PatchFormer", IMAGENET, {ONE: 30.3, TEN: 65.5, TWENTY: 70.2}),
)
PATCHFORMER_TOP_5 = (
    row("CPC++", IMAGENET, {ONE: 64.03, TEN: 84.88, TWENTY: 88.5}, "20%: read from a plot"),
    row("Selfie", IMAGENET, {}, "not known"),
    row("PatchFormer", IMAGENET, {ONE: 52.0, TEN: 82.3, TWENTY: 87.6}),
)

# ViT-B/16 (Vision Transformer): 2% above training from scratch and 4% below supervised pre-training.
VIT_SELF_SUPERVISED = (
    row("masked patch prediction", IMAGENET, {ACCURACY: 79.9}, "section 4.6"),
    row("from scratch", IMAGENET, {ACCURACY: "2 points lower"}, "section 4.6"),
    row("supervised pre-training", IMAGENET, {ACCURACY: "4 points higher"}, "section 4.6"),
)
