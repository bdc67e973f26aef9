"""Image GPT: tables 1 to 4, figures 2 to 4 and the ImageNet fine-tuning of section 4.5."""

from collections.abc import Sequence

from isopix.recipes import published
from isopix.recipes.published import (
    ACCURACY,
    BEST_LAYER,
    DROP,
    FEATURES,
    FINETUNED,
    FINETUNED_VOTE,
    IR,
    LAST_LAYER,
    LOSS,
    NUM_LABELS,
    PARAMETERS,
    PROBE,
    PROBE_VOTE,
    STEPS,
)
from isopix.studies.papers import igpt_figures, readers
from isopix.studies.papers.igpt_networks import (
    igpt_finetune,
    igpt_network,
    igpt_probe,
    image_size_of,
    model_sizes,
)
from isopix.studies.papers.protocol import Cell, MeasuredRow, protocol
from isopix.studies.papers.setup import AUGMENT, Setup, slug
from isopix.studies.papers.trials import LowData

SUBSETS = 5  # of the labels (section 4.7)
NUM_MASKS = 5  # whose predictions are combined (section 4.6)
CONCAT = 5  # layers around the best one (section 4.4)
PERCENT = {ACCURACY: "%"}
REFIT_NOTE = (
    "The layer and the L2 penalty are selected on validation images; the classifier is then fitted to train "
    "and validation together (section 3.1)."
)
FINETUNE_NOTE = (
    "Learning rates are tried in descending order, from that of pre-training on, until the validation "
    "accuracy falls; the number of steps is that of the highest validation accuracy; the network is then "
    "trained anew on train and validation together (sections 3.1, 3.4 and 4.5). The numbers of steps are our "
    "choice."
)


@protocol(
    "igpt.table1",
    "Linear probes on CIFAR-10, CIFAR-100 and STL-10",
    units=PERCENT,
    published=published.IGPT_TABLE_1,
    note=REFIT_NOTE,
)
def table1(setup: Setup) -> Sequence[MeasuredRow]:
    """iGPT-L, probed by L-BFGS."""
    large = igpt_network(setup, "igpt-l")
    return [
        MeasuredRow("iGPT-L", data, large, {ACCURACY: Cell(trial, readers.refitted_layer)})
        for data in setup.datasets("cifar10", "cifar100", "stl10")
        for trial in [igpt_probe(setup, large, data, refit_on_validation=True)]
    ]


@protocol(
    "igpt.table2",
    "Linear probes on ImageNet",
    units={IR: "", PARAMETERS: "", FEATURES: "", ACCURACY: "%"},
    published=published.IGPT_TABLE_2,
    note="SGD with momentum 0.9 and cosine decay, learning rates 30, 10, 3, ... (section 3.4). Five layers "
    "are concatenated around the best one.",
)
def table2(setup: Setup) -> Sequence[MeasuredRow]:
    """All sizes and resolutions, and five layers of iGPT-XL."""
    iterations = setup.choose(tiny=300, small=3000, paper=1_000_000)
    rows = []
    for name, method in {
        "igpt-s": "iGPT-S",
        "igpt-m": "iGPT-M",
        "igpt-l": "iGPT-L",
        "igpt-l-48": "iGPT-L",
        "igpt-xl": "iGPT-XL",
    }.items():
        network, (data,) = igpt_network(setup, name), setup.datasets("imagenet-1k")
        joined = {"concat": CONCAT} if name == "igpt-xl" else {}
        trial = igpt_probe(setup, network, data, method="sgd", iterations=iterations, **joined)
        cells: dict[str, Cell | str] = {**model_sizes(network), ACCURACY: Cell(trial, readers.best_layer)}
        rows.append(MeasuredRow(method, data, network, cells))
        if joined:
            cells = {**model_sizes(network, CONCAT), ACCURACY: Cell(trial, readers.concatenated_layers)}
            rows.append(MeasuredRow(f"{method}, {CONCAT} layers", data, network, cells))
    return rows


@protocol(
    "igpt.table3",
    "Fine-tuning on CIFAR-10 and CIFAR-100",
    units=PERCENT,
    published=published.IGPT_TABLE_3,
    note=FINETUNE_NOTE,
)
def table3(setup: Setup) -> Sequence[MeasuredRow]:
    """iGPT-L, all weights."""
    large = igpt_network(setup, "igpt-l")
    return [
        MeasuredRow(
            "iGPT-L", data, large, {ACCURACY: Cell(igpt_finetune(setup, large, data), readers.accuracy)}
        )
        for data in setup.datasets("cifar10", "cifar100")
    ]


@protocol(
    "igpt.imagenet-finetuning",
    "Fine-tuning on ImageNet (section 4.5)",
    units={IR: "", ACCURACY: "%"},
    published=published.IGPT_IMAGENET_FINETUNING,
    note=f"{FINETUNE_NOTE} From scratch: the classification loss alone, with dropout 0.1 (the rate is our "
    "choice).",
)
def imagenet_finetuning(setup: Setup) -> Sequence[MeasuredRow]:
    """iGPT-L at two resolutions, and from scratch."""
    (data,) = setup.datasets("imagenet-1k")
    large, larger = igpt_network(setup, "igpt-l"), igpt_network(setup, "igpt-l-48")
    scratch = setup.from_scratch("igpt-l-48-scratch", larger.recipe)
    plain = ("finetune.generative_weight=0.0", "finetune.dropout=0.1")
    trials = {
        "iGPT-L": igpt_finetune(setup, large, data),
        "iGPT-L, larger images": igpt_finetune(setup, larger, data),
        "iGPT-L from scratch": igpt_finetune(setup, scratch, data, *plain),
    }
    return [
        MeasuredRow(
            method,
            data,
            trial.network,
            {IR: image_size_of(trial.network), ACCURACY: Cell(trial, readers.accuracy)},
        )
        for method, trial in trials.items()
    ]


@protocol(
    "igpt.table4",
    "Error with 40, 250 and 4,000 labels of CIFAR-10",
    units={f"{count:,} labels": "%" for count in NUM_LABELS},
    published=published.IGPT_TABLE_4,
    note="Logistic regression on the features of one layer: mean and standard deviation over five random "
    "subsets with equally many images of each class, without augmentation (section 4.7). Layer and L2 "
    "penalty are selected on all validation images. The columns are labels of ten classes.",
)
def table4(setup: Setup) -> Sequence[MeasuredRow]:
    """Linear probes with few labels, and fine-tuning with the fewest."""
    (data,) = setup.datasets("cifar10")
    large = igpt_network(setup, "igpt-l")
    where, per_class = setup.probe_data(large, data), [count // 10 for count in NUM_LABELS]
    options = {"labels": per_class, "subsets": SUBSETS}
    few = LowData(f"low-data-{large.name}-{slug(data)}", large, where, options)
    steps = setup.choose(tiny=50, small=200, paper=1000)
    options = {"labels": per_class[:1], "subsets": SUBSETS, "finetune_steps": steps}
    options["settings"] = ["train.evaluators=[]", *AUGMENT.get(data, ())]
    tuned = LowData(f"low-data-{large.name}-{slug(data)}-finetuned", large, where, options)
    methods = {"iGPT-L": "trained", "untrained": "untrained", "raw pixels": "raw pixels"}
    rows = [
        MeasuredRow(
            title,
            data,
            large,
            {
                f"{10 * count:,} labels": Cell(few, readers.low_data_error(method, count))
                for count in per_class
            },
        )
        for title, method in methods.items()
    ]
    cell = Cell(tuned, readers.low_data_error("fine-tuned", per_class[0]))
    return [*rows, MeasuredRow("iGPT-L, fine-tuned", data, large, {f"{NUM_LABELS[0]} labels": cell})]


@protocol(
    "igpt.figure2",
    "Probe accuracy by layer",
    units={BEST_LAYER: "%", LAST_LAYER: "%", DROP: "points"},
    published=published.IGPT_FIGURE_2,
    note="The figure has no numbers in print; those of its text and of table 1 are shown.",
    draw=igpt_figures.draw_layers,
)
def figure2(setup: Setup) -> Sequence[MeasuredRow]:
    """iGPT-L, probed at every layer."""
    large = igpt_network(setup, "igpt-l")
    cells = {
        BEST_LAYER: readers.best_layer,
        LAST_LAYER: readers.last_layer,
        DROP: readers.drop_at_last_layer,
    }
    rows = []
    for data in setup.datasets("cifar10", "cifar100", "stl10"):
        trial = igpt_probe(setup, large, data, refit_on_validation=True)
        rows.append(
            MeasuredRow("iGPT-L", data, large, {name: Cell(trial, read) for name, read in cells.items()})
        )
    return rows


@protocol(
    "igpt.figure3",
    "Probe accuracy against validation loss during pre-training",
    units={STEPS: "", LOSS: "nats", ACCURACY: "%"},
    published=published.IGPT_FIGURE_3,
    note="The figure has no numbers in print; those of its models on ImageNet are shown. Measured accuracies "
    "are of a smaller probe that runs in training, on validation images of the data of pre-training other "
    "than those that select its layer; losses are of validation images too.",
    draw=igpt_figures.draw_loss_and_accuracy,
)
def figure3(setup: Setup) -> Sequence[MeasuredRow]:
    """iGPT-S, M and L at five checkpoints."""
    rows = []
    for name in ("igpt-s", "igpt-m", "igpt-l"):
        network = igpt_network(setup, name)
        for part, multiple in readers.CHECKPOINTS.items():
            cells: dict[str, Cell | str] = {
                STEPS: part,
                LOSS: Cell(network, readers.loss_at(multiple)),
                ACCURACY: Cell(network, readers.accuracy_at(multiple)),
            }
            method, data = f"iGPT-{name[-1].upper()}", network.recipe.data.source
            rows.append(MeasuredRow(method, data, network, cells))
    return rows


@protocol(
    "igpt.figure4",
    "Autoregressive and BERT pre-training",
    units={PROBE: "%", PROBE_VOTE: "%", FINETUNED: "%", FINETUNED_VOTE: "%"},
    published=published.IGPT_FIGURE_4,
    note=f"A single mask is the mean over five. {FINETUNE_NOTE}",
    draw=igpt_figures.draw_objectives,
)
def figure4(setup: Setup) -> Sequence[MeasuredRow]:
    """Probes and fine-tuning of iGPT-L with both objectives; BERT also with five masks per test image."""
    rows = []
    for data in setup.datasets("cifar10", "imagenet-1k"):
        large, bert = igpt_network(setup, "igpt-l"), igpt_network(setup, "igpt-l-bert")
        plain, tuned = (
            igpt_probe(setup, large, data, refit_on_validation=True),
            igpt_finetune(setup, large, data),
        )
        masked = igpt_probe(setup, bert, data, mask_ensemble=NUM_MASKS)
        bert_tuned = igpt_finetune(setup, bert, data, masks=NUM_MASKS)
        cells = {PROBE: Cell(plain, readers.best_layer), FINETUNED: Cell(tuned, readers.accuracy)}
        rows.append(MeasuredRow("autoregressive", data, large, cells))
        cells = {
            PROBE: Cell(masked, readers.single_mask),
            PROBE_VOTE: Cell(masked, readers.best_layer),
            FINETUNED: Cell(bert_tuned, readers.single_mask_accuracy),
            FINETUNED_VOTE: Cell(bert_tuned, readers.accuracy),
        }
        rows.append(MeasuredRow("BERT", data, bert, cells))
    return rows
