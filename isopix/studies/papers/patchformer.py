"""PatchFormer: fine-tuning with 1, 10 and 20 % of the labels of ImageNet, tables 1 and 2."""

from collections.abc import Sequence
from dataclasses import replace

from isopix.recipes import patchformer
from isopix.recipes.published import FRACTIONS, PATCHFORMER_TOP_1, PATCHFORMER_TOP_5
from isopix.recipes.recipe import Recipe
from isopix.studies.papers import readers
from isopix.studies.papers.protocol import Cell, MeasuredRow, protocol
from isopix.studies.papers.readers import Read
from isopix.studies.papers.setup import Setup, slug
from isopix.studies.papers.trials import FineTune

BATCH_SIZES, LRS = (16, 32, 64, 128, 256), (3e-5, 2e-4, 4e-4, 1e-3)  # section 2.2
PERCENT = {f"{fraction} of the labels": "%" for fraction in FRACTIONS}
NOTE = (
    "Every combination of batch size and learning rate is fine-tuned with these labels; the one with the "
    "highest validation accuracy is tested. Validation images are labeled too, and are not among the 1, 10 "
    "or 20 %. The paper does not say how it selects, and for how many steps it fine-tunes."
)


def _tiny() -> Recipe:
    recipe = patchformer.tiny()
    return recipe.updated(data=replace(recipe.data, rows=64, cols=64), steps=300, evaluate_images=450)


def _rows(setup: Setup, read: Read) -> Sequence[MeasuredRow]:
    recipe = setup.choose(tiny=_tiny(), small=patchformer.tiny(), paper=patchformer.base())
    network, (data,) = setup.network("patchformer", recipe), setup.datasets("imagenet-1k")
    batch_sizes, lrs = setup.choose(
        tiny=((16, 64), (4e-4, 1e-3)), small=((16, 64), LRS), paper=(BATCH_SIZES, LRS)
    )
    steps, every = setup.choose(tiny=(60, 20), small=(500, 50), paper=(50_000, 1000))
    grid = tuple((f"batch_size={size}", f"optimizer.lr={lr}") for size in batch_sizes for lr in lrs)
    cells = {
        f"{fraction} of the labels": Cell(
            FineTune(
                f"finetune-patchformer-{slug(data)}-{fraction.removesuffix('%')}-percent",
                network,
                setup.finetune_settings(
                    data, f"steps={steps}", f"evaluate_every={every}", f"data.labels_per_class={fraction}"
                ),
                grid,
            ),
            read,
        )
        for fraction in FRACTIONS
    }
    return [MeasuredRow("PatchFormer", data, network, cells)]


@protocol(
    "patchformer.table1",
    "Top-1 accuracy with 1, 10 and 20 % of the labels",
    units=PERCENT,
    published=PATCHFORMER_TOP_1,
    note=NOTE,
)
def top_1(setup: Setup) -> Sequence[MeasuredRow]:
    """Fine-tuned PatchFormers."""
    return _rows(setup, readers.accuracy)


@protocol(
    "patchformer.table2",
    "Top-5 accuracy with 1, 10 and 20 % of the labels",
    units=PERCENT,
    published=PATCHFORMER_TOP_5,
    note=NOTE,
)
def top_5(setup: Setup) -> Sequence[MeasuredRow]:
    """The same runs as in table 1."""
    return _rows(setup, readers.top5_accuracy)
