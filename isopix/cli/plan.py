"""`isopix plan`: estimate the cost of a recipe before training."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.api import inspection
from isopix.cli.console import (
    Device,
    Json,
    Plugins,
    SettingsFile,
    follow_up_options,
    load_plugins,
    say_wrapped,
    show_json,
    show_table,
)
from isopix.cli.parallel_tables import format_amount, print_parallel_plans
from isopix.core.choices import MFU
from isopix.core.device import PRECISIONS
from isopix.core.text import format_bytes
from isopix.display.formats import spell_duration
from isopix.papers import vit
from isopix.recipes.recipe import Recipe
from isopix.studies.inductive_bias.grid import cost

Clusters = Annotated[
    list[str] | None,
    Parameter(
        name="--devices",
        consume_multiple=True,
        negative="",
        help="Devices that train together, as COUNTxNAME; several to compare: 64xH100 8xA100. A number alone "
        "counts devices of this machine's kind.",
    ),
]

Review = Annotated[
    bool,
    Parameter(
        negative="",
        help="Print the corrected pre-training costs of the Vision Transformer review instead of a recipe's.",
    ),
]


def plan(
    recipe: str | None = None,
    *settings: str,
    file: SettingsFile = None,
    device: Device = "auto",
    devices: Clusters = None,
    node_bandwidth: float | None = None,
    price: float | None = None,
    mfu: float = MFU,
    plugin: Plugins = None,
    review: Review = False,
    json: Json = False,
) -> None:
    """Estimate parameters, FLOPs per image, memory and training time of a recipe; writes nothing.

    Example: isopix plan igpt.l --devices 64xH100 --price 2.5

    Parameters
    ----------
    recipe
        Name from `isopix recipe list`.
    settings
        Settings to override, as name=value.
    node_bandwidth
        Bandwidth between nodes, in GB/s of a whole node in one direction. Default: that of the vendor's nodes
        of 8 devices.
    price
        Price of a device hour, in any currency.
    mfu
        Assumed model FLOPs utilization (MFU): fraction of the device's data-sheet peak.
    """
    load_plugins(plugin)
    if review:
        if recipe is not None:
            raise ValueError(f"plan takes a recipe or --review, not both; given: {recipe}")
        _print_review(json=json)
        return
    if recipe is None:
        raise ValueError("plan needs a recipe, as in `isopix plan igpt.s`, or --review")
    found = inspection.plan(
        recipe,
        overrides=settings,
        file=file,
        device=device,
        devices=devices or (),
        node_bandwidth=node_bandwidth,
        price=price,
        mfu=mfu,
    )
    if json:
        show_json(found.record)
        return
    if found.parallel:
        options = [*settings, *(["--file", file] if file else []), *follow_up_options(plugin=plugin)]
        print_parallel_plans(found, command=[recipe, *options])
        return
    _print_estimate(found.recipe, found.record)
    _print_device_hours(found.device_hours, found.recipe.train.gpu_precision, mfu)


def _print_estimate(resolved: Recipe, numbers: Mapping[str, Any]) -> None:
    sizes = f"depth {resolved.model.depth}, width {resolved.model.width}"
    title = f"{resolved.name}: {sizes}, {numbers['positions']:,} positions"
    chunk = resolved.train.batch_size // resolved.train.accumulate
    rows = [
        ("parameters", f"{numbers['parameters']:,}"),
        ("FLOPs per image, forward", f"{numbers['forward_flops']:.3g}"),
        ("FLOPs per image, training", f"{numbers['training_flops']:.3g}"),
        ("memory: weights, gradients, optimizer state", format_bytes(numbers["weight_bytes"])),
        ("precision", PRECISIONS[numbers["precision"]]),
        (f"memory: training step, batch of {chunk}", format_bytes(numbers["step_bytes"])),
        ("memory: available", format_bytes(numbers["free_bytes"])),
        (
            "training images",
            f"{numbers['images']:,} ({resolved.train.steps:,} steps, batch size {resolved.train.batch_size})",
        ),
        ("estimated throughput", f"{numbers['images_per_second']:.3g} img/s"),
        ("estimated time", spell_duration(numbers["seconds"])),
    ]
    show_table(title, ["quantity", "value"], rows)
    device = numbers["device"]
    say_wrapped(f"The time assumes {MFU:.0%} of the measured matmul throughput of {device}.")


def _print_device_hours(costs: Sequence[cost.DeviceCost], precision: str, mfu: float) -> None:
    """Print the training time on other devices."""
    price = [] if costs[0].price is None else ["cost"]
    rows = []
    for name, peak, *spent in costs:
        amounts = [format_amount(each) for each in spent if each is not None]
        rows.append((name, f"{peak / 1e12:,.1f}", *amounts))
    title = f"Training on one device at {mfu:.0%} of its {precision} peak"
    show_table(title, ["device", "peak TFLOP/s", "hours", *price], rows)


def _print_review(*, json: bool) -> None:
    """Print the cost table of the review, with the figures that it states and their corrections."""
    costs = [(vit.training_price(each), each.review_price) for each in vit.PUBLISHED_TRAININGS]
    if json:
        networks = [{**found._asdict(), "review": words} for found, words in costs]
        show_json({"networks": networks, "corrections": list(vit.CORRECTIONS)})
        return
    rows = [
        (
            found.network,
            f"{found.tpu_hours:,.0f}",
            f"${found.dollars:,.0f}",
            words or "–",
            f"{found.v100_days:,.1f}",
        )
        for found, words in costs
    ]
    columns = [
        "network",
        "TPUv3 hours",
        f"cost at ${vit.VM_PRICE + vit.TPU_PRICE}/h",
        "review",
        "days on four V100s",
    ]
    show_table("Pre-training cost according to the Vision Transformer review", columns, rows)
    for correction in vit.CORRECTIONS:
        say_wrapped(correction)
