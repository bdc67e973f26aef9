"""Published numbers, typed again from the papers' text."""

from isopix.papers import igpt_tables, patchformer, vit
from isopix.papers.tables import PublishedRow, Value


def number(rows: tuple[PublishedRow, ...], method: str, data: str, column: str) -> Value | str:
    """The last of the rows with this column."""
    return [row.cells[column] for row in rows if (row.method, row.data) == (method, data)][-1]


def test_image_gpt() -> None:
    assert number(igpt_tables.TABLE_1, "iGPT-L", "cifar10", "accuracy") == Value(96.3)
    assert number(igpt_tables.TABLE_1, "SimCLR", "cifar100", "accuracy") == Value(80.2)
    assert number(igpt_tables.TABLE_1, "AMDIM-L", "stl10", "accuracy") == Value(94.2)
    rows = {(row.method, row.cells["input resolution"]): row.cells for row in igpt_tables.TABLE_2}
    assert rows["iGPT-L", "48×48"]["accuracy"] == Value(65.2)
    assert rows["iGPT-XL, 5 layers", "64×64"]["features"] == "15,360"
    assert rows["iGPT-XL", "64×64"]["accuracy"] == Value(68.7)
    assert rows["iGPT-S", "32×32"]["accuracy"] == Value(41.9)
    assert rows["CPC v2", ""]["parameters (M)"] == "303"
    assert number(igpt_tables.TABLE_3, "EfficientNet", "cifar100", "accuracy") == Value(91.7)
    assert number(igpt_tables.TABLE_3, "iGPT-L", "cifar10", "accuracy") == Value(99.0)
    assert number(igpt_tables.TABLE_4, "iGPT-L", "cifar10", "40 labels") == Value(26.8, 1.5)
    assert number(igpt_tables.TABLE_4, "UDA", "cifar10", "4,000 labels") == Value(4.9, 0.2)
    mean_teacher = next(row for row in igpt_tables.TABLE_4 if row.method == "Mean Teacher")
    assert mean_teacher.cells == {"250 labels": Value(32.3, 2.3), "4,000 labels": Value(9.2, 0.2)}
    assert number(igpt_tables.FIGURE_4, "BERT", "imagenet-1k", "fine-tuned") == Value(66.5)
    assert number(igpt_tables.FIGURE_4, "BERT", "cifar10", "fine-tuned") == Value(98.6)
    accuracies = [row.cells["accuracy"] for row in igpt_tables.IMAGENET_FINETUNING]
    assert accuracies == [Value(66.3), Value(72.6), Value(53.2), Value(70.2)]


def test_patchformer_and_vit() -> None:
    ours = "PatchFormer", "imagenet-1k"
    assert number(patchformer.TOP_1, *ours, "1% of the labels") == Value(30.3)
    assert number(patchformer.TOP_1, *ours, "20% of the labels") == Value(70.2)
    assert number(patchformer.TOP_5, *ours, "10% of the labels") == Value(82.3)
    assert number(patchformer.TOP_5, "CPC++", "imagenet-1k", "10% of the labels") == Value(84.88)
    assert vit.SELF_SUPERVISED[0].cells == {"accuracy": Value(79.9)}
