"""The tables of published numbers, next to those of `bench/results`, and of costs."""

from pathlib import Path

from cells import read, table

from isopix.core.text import mean_and_std
from isopix.recipes import published as tables
from isopix.recipes import registry
from isopix.recipes.cost import device_costs, recipe_cost, training_flops
from isopix.recipes.published import TableRow, Value
from isopix.runs.load import saved_recipe, shipped_models
from isopix.storage.atomic import read_json

SHIPPED = {name: shipped_models()[f"{name}-cifar10"] for name in ("igpt.tiny", "igpt.tiny_bert")}


def published(rows: tuple[TableRow, ...], method: str, data: str, column: str) -> str:
    """Format the number of a method on a dataset in a column of a published table."""
    row = next(each for each in rows if (each.method, each.data) == (method, data))
    value = row.cells[column]
    if isinstance(value.value, str):
        return value.value
    return f"{value.number:g}%" + ("" if value.std is None else f" ± {value.std:g}%")


def igpt_numbers() -> str:
    """Return Image GPT's published accuracies and errors next to those of small networks."""
    small, large = read("transfer-cifar10.json")["runs"]["ar"], SHIPPED["igpt.tiny"]
    few = [
        [f"{each['mean']:.1%} ± {each['std']:.1%}" for each in small["low_data"][name]]
        for name in ("trained", "raw pixels")
    ]
    losses = ", ".join(f"{row.cells[tables.LOSS].number:g}" for row in tables.IGPT_FIGURE_3)
    probe, finetuned = (
        published(rows, "iGPT-L", "cifar10", tables.ACCURACY)
        for rows in (tables.IGPT_TABLE_1, tables.IGPT_TABLE_3)
    )
    sizes = ", ".join(
        published(tables.IGPT_FIGURE_3, f"iGPT-{size}", "imagenet-1k", tables.ACCURACY) for size in "SML"
    )
    bert_probe = published(tables.IGPT_FIGURE_4, "BERT", "cifar10", tables.PROBE)
    rows = [
        ("CIFAR-10, linear probe, best layer", f"{probe} (L)", f"{accuracy(large)} (32×32)"),
        ("&nbsp;&nbsp;BERT", f"{bert_probe}% (L)", f"{accuracy(SHIPPED['igpt.tiny_bert'])} (32×32)"),
        ("CIFAR-10, fine-tuned", f"{finetuned} (L)", f"{mean_and_std(small['finetuned']['values'])} (16×16)"),
        *(
            (
                f"CIFAR-10, {count:,} labels, test error",
                f"{published(tables.IGPT_TABLE_4, 'iGPT-L', 'cifar10', f'{count:,} labels')} (L)",
                f"{trained} (16×16); raw pixels {pixels}",
            )
            for count, trained, pixels in zip(tables.NUM_LABELS, *few, strict=True)
        ),
        ("ImageNet, linear probe", f"{sizes} (S, M, L at 32×32)", "not run"),
        ("ImageNet, test loss in nats per pixel", f"{losses} (S, M, L)", "not run"),
    ]
    note = (
        "± is the standard deviation over 5 subsets of the labels, of fine-tuning over "
        f"{small['finetuned']['n']} seeds. Ours processed {images_seen(large):,} (32×32: the [shipped "
        f"models](models.md), probed with 10,000 training images) and "
        f"{small['images_seen']:,} images on two CPU cores, the paper's 128,000,000: too few to test the "
        "paper's claims."
    )
    return table(("measurement", "published", "isopix, `igpt.tiny`"), rows) + f"\n{note}\n"


def accuracy(model: Path) -> str:
    return f"{read_json(model / 'model.json')['probe_accuracy']:.1%}"


def images_seen(model: Path) -> int:
    train = saved_recipe(model).train
    return train.steps * train.batch_size


def patchformer_numbers() -> str:
    """Return PatchFormer's published accuracies next to those of a small network."""
    run = read("patches-flowers5.json")["runs"]["patchformer"]
    ours = {"10%": mean_and_std(run["finetuned"]["values"])}
    rows = [
        (
            f"{fraction} of the labels",
            *(
                published(rows, "PatchFormer", "imagenet-1k", f"{fraction} of the labels")
                for rows in (tables.PATCHFORMER_TOP_1, tables.PATCHFORMER_TOP_5)
            ),
            ours.get(fraction, "not run"),
        )
        for fraction in tables.FRACTIONS
    ]
    columns = ("", "published, top-1", "published, top-5", "`patchformer.tiny` on flowers, top-1")
    return table(columns, rows) + (
        "\nPublished: ImageNet, 1,000 classes. Ours: flowers of five kinds (chance: about 20%); the two "
        "columns are not comparable.\n"
    )


def vit_numbers() -> str:
    """Return the published accuracies of masked patch prediction next to those of a small network."""
    run = read("patches-flowers5.json")["runs"]["vit"]
    pre, scratch = mean_and_std(run["finetuned"]["values"]), mean_and_std(run["scratch"]["values"])
    names = ("masked patch prediction", "from scratch", "supervised pre-training")
    ours = (pre, scratch, "not run")
    rows = [
        (name, cell(next(iter(row.cells.values()))), own)
        for name, row, own in zip(names, tables.VIT_SELF_SUPERVISED, ours, strict=True)
    ]
    columns = (
        "fine-tuned after",
        "published, ViT-B/16 on ImageNet (section 4.6)",
        "`vit.tiny`, 10% of the labels of flowers",
    )
    return (
        table(columns, rows)
        + "\nThe setup of ours, and the paired difference: [results](#results-of-small-networks).\n"
    )


def cell(found: Value) -> str:
    return found.value if isinstance(found.value, str) else f"{found.value:g}%"


COSTS = {
    "igpt.": ("igpt.s", "igpt.m", "igpt.l", "igpt.xl"),
    "isotropic.": tuple(f"isotropic.{each}-pix2vec-6" for each in ("conv", "mixer", "transformer-1")),
    "patches": ("patchformer.base", "vit.b16", "vit.l16", "vit.h14"),
}
DEVICES = ("H100", "A100")


def costs(group: str) -> str:
    """Return the cost of pre-training of some recipes, as `isopix plan` estimates it."""
    rows = []
    for name in COSTS[group]:
        recipe = registry.find(name)
        flops, images = training_flops(recipe), recipe.train.steps * recipe.train.batch_size
        of_device = {each.device: each.hours for each in device_costs(flops, recipe.train.gpu_precision)}
        count = recipe_cost(recipe).parameters
        cells = (f"`{name}`", f"{count:,}", f"{images / 1e6:,.1f}", f"{flops:.1e}")
        rows.append((*cells, *(hours(of_device[device]) for device in DEVICES)))
    columns = ("recipe", "parameters", "images (millions)", "FLOPs", *(f"{each}-hours" for each in DEVICES))
    return table(columns, rows) + (
        "\nEstimates of `isopix plan` for the paper's schedule, at 40% of the data sheet's peak (MFU).\n"
    )


def hours(count: float) -> str:
    """Format a number of hours: `792.6`, `0.026`."""
    return f"{count:,.1f}" if count >= 10 else f"{count:.2g}"
