"""Image GPT (Chen et al. 2020): tables 1 to 4, and the numbers that its text gives for figures 2 to 4.

Accuracies and errors in per cent. Where the paper contradicts itself: table 4 holds errors although its
caption says performance; Mean Teacher's two numbers belong to 250 and 4,000 labels.
"""

from isopix.papers.igpt import LOW_DATA, TEST_LOSSES
from isopix.papers.tables import PublishedRow, Value, single_column

ACCURACY = "accuracy"
PROBE, PROBE_VOTE, FINETUNED, FINETUNED_VOTE = "probe", "probe, 5 masks", "fine-tuned", "fine-tuned, 5 masks"
IR, PARAMETERS, FEATURES = "input resolution", "parameters (M)", "features"
BEST_LAYER, LAST_LAYER, DROP = "best layer", "last layer", "drop at the last layer"
STEPS, LOSS = "steps", "validation loss"
NUM_LABELS = (40, 250, 4000)

TABLE_1 = single_column(
    ACCURACY,
    {
        "cifar10": {"ResNet-152": 94.0, "SimCLR": 95.3, "iGPT-L": 96.3},
        "cifar100": {"ResNet-152": 78.0, "SimCLR": 80.2, "iGPT-L": 82.8},
        "stl10": {"AMDIM-L": 94.2, "iGPT-L": 95.5},
    },
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
TABLE_2 = (
    *(
        PublishedRow(
            method,
            "imagenet-1k",
            {IR: size, PARAMETERS: f"{parameters:,}", FEATURES: f"{features:,}", ACCURACY: Value(accuracy)},
        )
        for method, size, parameters, features, accuracy in _TABLE_2
    ),
    PublishedRow("iGPT-S", "imagenet-1k", {IR: "32×32", ACCURACY: Value(41.9)}, "section 4.4"),
    PublishedRow("iGPT-M", "imagenet-1k", {IR: "32×32", ACCURACY: Value(54.5)}, "section 4.4"),
)

TABLE_3 = single_column(
    ACCURACY,
    {
        "cifar10": {"AutoAugment": 98.5, "SimCLR": 98.6, "GPipe": 99.0, "iGPT-L": 99.0},
        "cifar100": {"iGPT-L": 88.5, "SimCLR": 89.0, "AutoAugment": 89.3, "EfficientNet": 91.7},
    },
)

IMAGENET_FINETUNING = tuple(
    PublishedRow(method, "imagenet-1k", {IR: size, ACCURACY: Value(accuracy)}, "section 4.5")
    for method, size, accuracy in (
        ("iGPT-L", "32×32", 66.3),
        ("iGPT-L", "48×48", 72.6),
        ("iGPT-L from scratch", "48×48", 53.2),
        ("Isometric Neural Nets", "28×28", 70.2),
    )
)

TABLE_4 = (
    *(
        PublishedRow(
            each.method, "cifar10", {f"{count:,} labels": Value(*each.errors[count]) for count in each.errors}
        )
        for each in LOW_DATA
    ),
    PublishedRow("iGPT-L, fine-tuned", "cifar10", {"40 labels": Value(57.9)}, "section 4.7: 42.1 % accuracy"),
)

# The figure has no numbers; these stand in the text and in table 1.
FIGURE_2 = (
    PublishedRow("iGPT-L", "cifar10", {BEST_LAYER: Value(96.3), DROP: Value(2.4)}, "table 1 and section 4.1"),
    PublishedRow("iGPT-L", "cifar100", {BEST_LAYER: Value(82.8)}, "table 1"),
    PublishedRow("iGPT-L", "stl10", {BEST_LAYER: Value(95.5)}, "table 1"),
)

# The loss is that of OpenAI's test images, ImageNet's validation set.
FIGURE_3 = tuple(
    PublishedRow(
        f"iGPT-{size}",
        "imagenet-1k",
        {STEPS: "all", LOSS: Value(loss.value), ACCURACY: Value(accuracy)},
        "README of OpenAI's image-gpt; section 4.4 and table 2",
    )
    for size, loss, accuracy in zip("SML", TEST_LOSSES, (41.9, 54.5, 60.3), strict=True)
)

FIGURE_4 = (
    PublishedRow("autoregressive", "cifar10", {PROBE: Value(96.3), FINETUNED: Value(99.0)}, "tables 1 and 3"),
    PublishedRow(
        "BERT",
        "cifar10",
        {PROBE: "below 95.3", FINETUNED: Value(98.6), PROBE_VOTE: "unchanged", FINETUNED_VOTE: "unchanged"},
        "section 4.6",
    ),
    PublishedRow(
        "autoregressive",
        "imagenet-1k",
        {PROBE: Value(60.3), FINETUNED: Value(66.3)},
        "table 2 and section 4.5",
    ),
    PublishedRow(
        "BERT",
        "imagenet-1k",
        {
            PROBE: "6 points lower",
            FINETUNED: Value(66.5),
            PROBE_VOTE: "almost +1",
            FINETUNED_VOTE: "almost +1",
        },
        "section 4.6",
    ),
)
