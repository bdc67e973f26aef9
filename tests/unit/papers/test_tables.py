"""Published numbers, typed again from the papers' text."""

from isopix.papers import igpt_tables, patchformer, vit

from isopix.recipes.published import PublishedRow, Value


def number(rows: tuple[PublishedRow, ...], method: str, data: str, column: str) -> Value | str:
    """The last of the rows with this column."""
    return [row.cells[column] for row in rows if (row.method, row.data) == (method, data)][-1]


def test_image_gpt() -> None:
    assert number(igpt_tables.TABLE_1, "iGPT-L", "cifar10", "accuracy") == Value(96.3)
    assert number(igpt_tables.TABLE_1, "SimCLR", "cifar100", "accuracy") == Value(80.2)
    assert number(igpt_tables.TABLE_1, "AMDIM-L", "stl10", "accuracy") == Value(94.2)
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


def test_table_2_of_image_gpt() -> None:
    typed = [
        ("Rotation", "", "86", "8,192", 55.4),
        ("iGPT-L", "32×32", "1,362", "1,536", 60.3),
        ("BigBiGAN", "", "86", "8,192", 61.3),
        ("iGPT-L", "48×48", "1,362", "1,536", 65.2),
        ("AMDIM", "", "626", "8,192", 68.1),
        ("MoCo", "", "375", "8,192", 68.6),
        ("iGPT-XL", "64×64", "6,801", "3,072", 68.7),
        ("SimCLR", "", "24", "2,048", 69.3),
        ("CPC v2", "", "303", "8,192", 71.5),
        ("iGPT-XL, 5 layers", "64×64", "6,801", "15,360", 72.0),
        ("SimCLR", "", "375", "8,192", 76.5),
        ("iGPT-S", "32×32", None, None, 41.9),  # these two in section 4.4
        ("iGPT-M", "32×32", None, None, 54.5),
    ]
    columns = ("input resolution", "parameters (M)", "features", "accuracy")
    rows = [(row.method, *map(row.cells.get, columns)) for row in igpt_tables.TABLE_2]
    assert rows == [(*cells, Value(accuracy)) for *cells, accuracy in typed]
    assert {row.data for row in igpt_tables.TABLE_2} == {"imagenet-1k"}


def test_patchformer_and_vit() -> None:
    ours = "PatchFormer", "imagenet-1k"
    assert number(patchformer.TOP_1, *ours, "1% of the labels") == Value(30.3)
    assert number(patchformer.TOP_1, *ours, "20% of the labels") == Value(70.2)
    assert number(patchformer.TOP_5, *ours, "10% of the labels") == Value(82.3)
    assert number(patchformer.TOP_5, "CPC++", "imagenet-1k", "10% of the labels") == Value(84.88)
    assert vit.SELF_SUPERVISED[0].cells == {"accuracy": Value(79.9)}
