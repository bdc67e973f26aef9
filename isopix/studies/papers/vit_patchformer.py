"""Fine-tuning after masked patch prediction: the Vision Transformer, and tables 1 and 2 of PatchFormer."""

from collections.abc import Iterator, Sequence

from isopix.recipes import patchformer, published, vit
from isopix.recipes.published import Value
from isopix.recipes.recipe import Recipe
from isopix.studies.papers.protocol import (
    TUNED,
    Cell,
    MeasuredRow,
    Read,
    Record,
    Setup,
    cells_of,
    in_percent,
    low_data_error,
    protocol,
    slug,
)
from isopix.studies.papers.trials import FineTune, Pretrain, Probe

ACCURACY = "accuracy"
LRS = (0.003, 0.01, 0.03, 0.06)  # of ImageNet (appendix B.1.1)
SHOTS, SUBSETS = (5, 10), 5  # images per class, and random draws of them: our choice
FEW_SHOT = {f"{shots} images per class": "%" for shots in SHOTS}


def _tiny(recipe: Recipe, side: int) -> Recipe:
    return recipe.updated(rows=side, cols=side, steps=300, evaluate_images=450)


def _recipe(setup: Setup) -> Recipe:
    return setup.choose(tiny=_tiny(vit.tiny(), 32), small=vit.tiny(), paper=vit.b16())


def _finetune(setup: Setup, network: Pretrain, data: str) -> FineTune:
    steps, batch_size = setup.choose(tiny=(100, 64), small=(500, 128), paper=(20_000, 512))
    side = setup.choose(tiny=48, small=96, paper=384)
    sizes = (f"steps={steps}", f"batch_size={batch_size}", f"evaluate_every={steps}", f"data.size={side}")
    lrs = setup.choose(tiny=LRS[1:3], small=LRS, paper=LRS)
    return FineTune(
        f"finetune-{network.name}-{slug(data)}",
        network,
        setup.finetune_settings(data, *vit.PAPER_FINETUNE, *sizes, "data.holdout=0.01"),
        tuple((f"optimizer.lr={lr}",) for lr in lrs),
        refit=True,
    )


@protocol(
    "vit.finetuning",
    units={ACCURACY: "%"},
    published=published.VIT_SELF_SUPERVISED,
    note="SGD with momentum 0.9, batch size 512, cosine decay, no weight decay, gradients clipped at norm 1, "
    "position embeddings interpolated to larger images; 1% of the training images selects the learning "
    "rate, then all are trained on (appendix B.1.1). The paper pre-trains on JFT, and trains from scratch "
    "with other settings than here.",
)
def finetuning(setup: Setup) -> Sequence[MeasuredRow]:
    """Fine-tuning on ImageNet at 384 pixels."""
    (data,), recipe = setup.datasets("imagenet-1k"), _recipe(setup)
    networks = {
        "masked patch prediction": setup.network("vit", recipe),
        "from scratch": setup.from_scratch("vit-scratch", recipe),
    }
    return [
        MeasuredRow(method, data, network, {ACCURACY: Cell(_finetune(setup, network, data), TUNED)})
        for method, network in networks.items()
    ]


@protocol(
    "vit.few-shot",
    units=FEW_SHOT,
    published=(),
    note="Least squares with an L2 penalty from frozen representations of a few images per class to targets "
    "of -1 and 1, in closed form (section 4.1); the paper shows results as a figure only. The representation "
    "is the class token after the last block; the penalty is selected on validation images. Mean and "
    "standard deviation over five random draws.",
)
def few_shot(setup: Setup) -> Iterator[MeasuredRow]:
    """Linear few-shot accuracy."""
    network, (data,) = setup.network("vit", _recipe(setup)), setup.datasets("imagenet-1k")
    options = {"labels": list(SHOTS), "subsets": SUBSETS, "method": "ridge", "pool": "first"}
    options["layer"] = network.recipe.model.depth
    name = f"few-shot-{network.name}-{slug(data)}"
    trial = Probe(name, network, setup.probe_data(network, data), options)
    methods = {"masked patch prediction": "trained", "untrained": "untrained", "raw pixels": "raw pixels"}
    for title, method in methods.items():
        reads = {f"{shots} images per class": _low_data_accuracy(method, shots) for shots in SHOTS}
        yield MeasuredRow(title, data, network, cells_of(trial, reads))


def _low_data_accuracy(method: str, labels_per_class: int) -> Read:
    def read(record: Record) -> Value | None:
        error = low_data_error(method, labels_per_class)(record)
        return None if error is None else Value(100 - error.number, error.std)

    return read


BATCH_SIZES, PATCHFORMER_LRS = (16, 32, 64, 128, 256), (3e-5, 2e-4, 4e-4, 1e-3)  # section 2.2
PERCENT = {f"{fraction} of the labels": "%" for fraction in published.FRACTIONS}
ALL_SELECT = "evaluate_images=null"  # fewer of a short run would favor small batches: noise can win
PATCHFORMER_NOTE = (
    "Every combination of batch size and learning rate is fine-tuned with these labels; the one with the "
    "highest accuracy on all validation images is tested. They are labeled too, and are not among the 1, 10 "
    "or 20%. The paper does not say how it selects, and for how many steps it fine-tunes."
)


def _patchformer_rows(setup: Setup, read: Read) -> Sequence[MeasuredRow]:
    small = patchformer.tiny()
    recipe = setup.choose(tiny=_tiny(small, 64), small=small, paper=patchformer.base())
    network, (data,) = setup.network("patchformer", recipe), setup.datasets("imagenet-1k")
    batch_sizes, lrs = setup.choose(
        tiny=((16, 64), (4e-4, 1e-3)), small=((16, 64), PATCHFORMER_LRS), paper=(BATCH_SIZES, PATCHFORMER_LRS)
    )
    steps, every = setup.choose(tiny=(60, 20), small=(500, 50), paper=(50_000, 1000))
    grid = tuple((f"batch_size={size}", f"optimizer.lr={lr}") for size in batch_sizes for lr in lrs)
    cells: dict[str, Cell | str] = {}
    for fraction in published.FRACTIONS:
        words = (f"steps={steps}", f"evaluate_every={every}", f"data.labels_per_class={fraction}", ALL_SELECT)
        name = f"finetune-patchformer-{slug(data)}-{fraction.removesuffix('%')}-percent"
        trial = FineTune(name, network, setup.finetune_settings(data, *words), grid)
        cells[f"{fraction} of the labels"] = Cell(trial, read)
    return [MeasuredRow("PatchFormer", data, network, cells)]


@protocol("patchformer.table1", units=PERCENT, published=published.PATCHFORMER_TOP_1, note=PATCHFORMER_NOTE)
def top_1(setup: Setup) -> Sequence[MeasuredRow]:
    """Top-1 accuracy with 1, 10 and 20% of the labels."""
    return _patchformer_rows(setup, TUNED)


@protocol("patchformer.table2", units=PERCENT, published=published.PATCHFORMER_TOP_5, note=PATCHFORMER_NOTE)
def top_5(setup: Setup) -> Sequence[MeasuredRow]:
    """Top-5 accuracy with 1, 10 and 20% of the labels."""
    return _patchformer_rows(setup, in_percent(lambda found: found.metrics.top5_accuracy))
