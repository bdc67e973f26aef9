"""Image GPT: tables 1 to 4, figures 2 to 4 and the ImageNet fine-tuning of section 4.5."""

from collections.abc import Callable, Iterator, Sequence

from isopix.plots import curves
from isopix.plots.curves import Bar, ProbePoint, probe_points
from isopix.plots.style import Figure
from isopix.recipes import published as pub
from isopix.recipes.published import Value
from isopix.studies.papers.igpt_networks import igpt_finetune, igpt_network, igpt_probe, image_size_of
from isopix.studies.papers.protocol import (
    AUGMENT,
    TUNED,
    Cell,
    MeasuredRow,
    Read,
    Record,
    Records,
    Setup,
    cells_of,
    in_percent,
    low_data_error,
    protocol,
    slug,
)
from isopix.studies.papers.trials import Probe, network_cost

SUBSETS = 5  # of the labels (section 4.7)
NUM_MASKS = 5  # whose predictions are combined (section 4.6)
CONCAT = 5  # layers around the best one (section 4.4)
# Checkpoints of figure 3, as multiples of the interval of probes in training; None is the last step.
CHECKPOINTS = {"1/16": 1, "1/8": 2, "1/4": 4, "1/2": 8, "all": None}
PERCENT = {pub.ACCURACY: "%", pub.TRANSFER: ""}
SCRATCH_DROPOUT = ("embedding_dropout=0.1", "block.dropout=0.1", "block.attention_dropout=0.1")
BEST = in_percent(lambda probe: probe.best.test_accuracy)
LAST = in_percent(lambda probe: probe.network.layers[-1].test_accuracy)
REFIT = in_percent(lambda probe: probe.refit.test_accuracy)
# Of one mask at a time, the mean over all.
BEST_OF_ONE = in_percent(lambda probe: probe.best.ensemble.single_mask)
TUNED_OF_ONE = in_percent(lambda evaluation: evaluation.metrics.ensemble.single_mask)
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


def draw_layers(rows: Sequence[MeasuredRow], records: Records) -> tuple[Figure, str] | None:
    """Draw probe accuracy by layer, a curve for each dataset (figure 2)."""
    probes = {
        row.data: records[cell.trial.name]
        for row in rows
        for cell in row.cells.values()
        if isinstance(cell, Cell) and cell.trial.name in records
    }
    if not probes:
        return None
    caption = "Test accuracy by layer; bands: 95% intervals; rings: best layers on validation images."
    return curves.plot_probe_accuracy(probes), caption


def draw_loss_and_accuracy(rows: Sequence[MeasuredRow], records: Records) -> tuple[Figure, str] | None:
    """Draw probe accuracy against validation loss, a line for each model (figure 3)."""
    done = {row.method: records[row.network.name] for row in rows if row.network.name in records}
    lines = {method: probe_points(log) for method, log in done.items()}
    lines = {method: points for method, points in lines.items() if any(point.step for point in points)}
    if not lines:
        return None
    caption = "Points: checkpoints of one model, with 95% intervals; ring: last step; dashed: untrained."
    return curves.plot_accuracy_vs_loss(lines, unit="pixel"), caption


def draw_objectives(rows: Sequence[MeasuredRow], records: Records) -> tuple[Figure, str] | None:
    """Draw probe and fine-tuned accuracy for both objectives (figure 4)."""
    bars: dict[str, list[Bar]] = {}
    for row in rows:
        values = row.values(records)
        for single, vote in ((pub.PROBE, pub.PROBE_VOTE), (pub.FINETUNED, pub.FINETUNED_VOTE)):
            number, voted = _fraction(values[single]), _fraction(values.get(vote))
            if number is not None:
                bars.setdefault(f"{row.method}, {row.data}", []).append(Bar(single, number, voted))
    if not bars:
        return None
    return curves.plot_accuracy_bars(bars), "Test accuracy; outlined: majority vote of five masks per image."


def _fraction(value: Value | None) -> float | None:
    return None if value is None else value.number / 100


@protocol("igpt.table1", units=PERCENT, published=pub.IGPT_TABLE_1, note=REFIT_NOTE)
def table1(setup: Setup) -> Sequence[MeasuredRow]:
    """Linear probes on CIFAR-10, CIFAR-100 and STL-10."""
    return _probes(setup, {pub.ACCURACY: REFIT})


def _probes(setup: Setup, reads: dict[str, Read]) -> list[MeasuredRow]:
    large = igpt_network(setup, "igpt-l")
    return [
        MeasuredRow(
            "iGPT-L", data, large, cells_of(igpt_probe(setup, large, data, refit_on_validation=True), reads)
        )
        for data in setup.datasets("cifar10", "cifar100", "stl10")
    ]


@protocol(
    "igpt.table2",
    units={pub.IR: "", pub.PARAMETERS: "", pub.FEATURES: "", pub.ACCURACY: "%"},
    published=pub.IGPT_TABLE_2,
    note="SGD with momentum 0.9 and cosine decay, learning rates 30, 10, 3, ... (section 3.4). Five layers "
    "are concatenated around the best one.",
)
def table2(setup: Setup) -> Iterator[MeasuredRow]:
    """Linear probes on ImageNet."""
    (data,) = setup.datasets("imagenet-1k")
    for name in ("igpt-s", "igpt-m", "igpt-l", "igpt-l-48", "igpt-xl"):
        network, method = igpt_network(setup, name), f"iGPT-{name.split('-')[1].upper()}"
        joined = {"concat": CONCAT} if name == "igpt-xl" else {}
        trial = igpt_probe(setup, network, data, method="sgd", **joined)
        own, width = network_cost(network.recipe).parameters / 1e6, network.recipe.model.width
        sizes = {pub.IR: image_size_of(network), pub.PARAMETERS: f"{own:,.2f}"}
        cells: dict[str, Cell | str] = {**sizes, pub.FEATURES: f"{width:,}", pub.ACCURACY: Cell(trial, BEST)}
        yield MeasuredRow(method, data, network, cells)
        if joined:
            concatenated = Cell(trial, in_percent(lambda probe: probe.network.concat.score.test_accuracy))
            cells = {**sizes, pub.FEATURES: f"{CONCAT * width:,}", pub.ACCURACY: concatenated}
            yield MeasuredRow(f"{method}, {CONCAT} layers", data, network, cells)


@protocol("igpt.table3", units=PERCENT, published=pub.IGPT_TABLE_3, note=FINETUNE_NOTE)
def table3(setup: Setup) -> Sequence[MeasuredRow]:
    """Fine-tuning on CIFAR-10 and CIFAR-100."""
    large = igpt_network(setup, "igpt-l")
    return [
        MeasuredRow("iGPT-L", data, large, {pub.ACCURACY: Cell(igpt_finetune(setup, large, data), TUNED)})
        for data in setup.datasets("cifar10", "cifar100")
    ]


@protocol(
    "igpt.imagenet-finetuning",
    units={pub.IR: "", pub.ACCURACY: "%"},
    published=pub.IGPT_IMAGENET_FINETUNING,
    note=f"{FINETUNE_NOTE} From scratch: the classification loss alone, with dropout 0.1 of embeddings, "
    "attention weights and each branch, as in GPT-2 (rate and places are our choice).",
)
def imagenet_finetuning(setup: Setup) -> Sequence[MeasuredRow]:
    """Fine-tuning on ImageNet (section 4.5)."""
    (data,) = setup.datasets("imagenet-1k")
    large, larger = igpt_network(setup, "igpt-l"), igpt_network(setup, "igpt-l-48")
    scratch = setup.from_scratch("igpt-l-48-scratch", larger.recipe)
    plain = ("finetune.generative_weight=0.0", *SCRATCH_DROPOUT)
    trials = {
        "iGPT-L": igpt_finetune(setup, large, data),
        "iGPT-L, larger images": igpt_finetune(setup, larger, data),
        "iGPT-L from scratch": igpt_finetune(setup, scratch, data, *plain),
    }
    return [
        MeasuredRow(
            method, data, each.network, {pub.IR: image_size_of(each.network), pub.ACCURACY: Cell(each, TUNED)}
        )
        for method, each in trials.items()
    ]


@protocol(
    "igpt.table4",
    units={f"{count:,} labels": "%" for count in pub.NUM_LABELS},
    published=pub.IGPT_TABLE_4,
    note="Logistic regression on the features of one layer: mean and standard deviation over five random "
    "subsets with equally many images of each class, without augmentation (section 4.7). Layer and L2 "
    "penalty are selected on all validation images. The columns are labels of ten classes.",
)
def table4(setup: Setup) -> Sequence[MeasuredRow]:
    """Error with 40, 250 and 4,000 labels of CIFAR-10."""
    (data,), large = setup.datasets("cifar10"), igpt_network(setup, "igpt-l")
    where, name = setup.probe_data(large, data), f"low-data-{large.name}-{slug(data)}"
    labels = {f"{count:,} labels": count // 10 for count in pub.NUM_LABELS}  # of each class
    few = Probe(name, large, where, {"labels": [*labels.values()], "subsets": SUBSETS})
    fewest, count = next(iter(labels.items()))
    steps = setup.choose(tiny=50, small=200, paper=1000)
    options = {"labels": [count], "subsets": SUBSETS, "finetune_steps": steps}
    settings = ("train.evaluators=[]", *AUGMENT.get(data, ()))
    tuned = Probe(f"{name}-finetuned", large, where, options, settings)
    methods = {"iGPT-L": "trained", "untrained": "untrained", "raw pixels": "raw pixels"}
    rows = [
        (title, cells_of(few, {column: low_data_error(method, each) for column, each in labels.items()}))
        for title, method in methods.items()
    ]
    rows.append(("iGPT-L, fine-tuned", cells_of(tuned, {fewest: low_data_error("fine-tuned", count)})))
    return [MeasuredRow(title, data, large, cells) for title, cells in rows]


@protocol(
    "igpt.figure2",
    units={pub.BEST_LAYER: "%", pub.LAST_LAYER: "%", pub.DROP: "points"},
    published=pub.IGPT_FIGURE_2,
    note="The figure has no numbers in print; those of its text and of table 1 are shown.",
    draw=draw_layers,
)
def figure2(setup: Setup) -> Sequence[MeasuredRow]:
    """Probe accuracy by layer."""

    def drop(record: Record) -> Value | None:
        best, last = BEST(record), LAST(record)
        return None if best is None or last is None else Value(best.number - last.number)

    return _probes(setup, {pub.BEST_LAYER: BEST, pub.LAST_LAYER: LAST, pub.DROP: drop})


@protocol(
    "igpt.figure3",
    units={pub.STEPS: "", pub.LOSS: "nats", pub.ACCURACY: "%"},
    published=pub.IGPT_FIGURE_3,
    note="The figure has no numbers in print, and does not name the dataset: over 90%, as read off "
    "it in openai/image-gpt, issue 12, fits CIFAR-10 and not ImageNet. Published are its models on ImageNet; "
    "measured is CIFAR-10, or --data, by a smaller probe that runs in training, on validation "
    "images other than those that select its layer. Losses are of validation images of pre-training.",
    draw=draw_loss_and_accuracy,
)
def figure3(setup: Setup) -> Iterator[MeasuredRow]:
    """Probe accuracy against validation loss during pre-training."""
    (data,) = setup.datasets("cifar10")
    for name in ("igpt-s", "igpt-m", "igpt-l"):
        network = igpt_network(setup, name)
        for part, multiple in CHECKPOINTS.items():
            reads = {
                pub.LOSS: at_checkpoint(multiple, lambda point: point.loss),
                pub.ACCURACY: at_checkpoint(multiple, lambda point: 100 * point.accuracy),
            }
            method = f"iGPT-{name[-1].upper()}"
            yield MeasuredRow(method, data, network, {pub.STEPS: part, **cells_of(network, reads)})


def at_checkpoint(multiple: int | None, value: Callable[[ProbePoint], float]) -> Read:
    """Return a reader of the probe at a checkpoint in the log of a network."""

    def read(record: Record) -> Value | None:
        points = {point.step: point for point in probe_points(record) if point.step > 0}
        if not points:
            return None
        found = points.get(max(points) if multiple is None else multiple * min(points))
        return None if found is None else Value(value(found))

    return read


@protocol(
    "igpt.figure4",
    units={pub.PROBE: "%", pub.PROBE_VOTE: "%", pub.FINETUNED: "%", pub.FINETUNED_VOTE: "%"},
    published=pub.IGPT_FIGURE_4,
    note=f"Probes of ImageNet are by SGD (section 3.4). A single mask is the mean over five. {FINETUNE_NOTE}",
    draw=draw_objectives,
)
def figure4(setup: Setup) -> Iterator[MeasuredRow]:
    """Autoregressive and BERT pre-training."""
    for data in setup.datasets("cifar10", "imagenet-1k"):
        large, bert = igpt_network(setup, "igpt-l"), igpt_network(setup, "igpt-l-bert")
        sgd: dict[str, object] = {"method": "sgd"} if data == pub.IMAGENET else {}
        probe = igpt_probe(setup, large, data, **(sgd or {"refit_on_validation": True}))
        tuned = igpt_finetune(setup, large, data)
        cells: dict[str, Cell | str] = {pub.PROBE: Cell(probe, BEST), pub.FINETUNED: Cell(tuned, TUNED)}
        yield MeasuredRow("autoregressive", data, large, cells)
        probe = igpt_probe(setup, bert, data, **sgd, mask_ensemble=NUM_MASKS)
        tuned = igpt_finetune(setup, bert, data, masks=NUM_MASKS)
        cells = cells_of(probe, {pub.PROBE: BEST_OF_ONE, pub.PROBE_VOTE: BEST})
        cells |= cells_of(tuned, {pub.FINETUNED: TUNED_OF_ONE, pub.FINETUNED_VOTE: TUNED})
        yield MeasuredRow("BERT", data, bert, cells)
