"""`isopix plan`: what a recipe costs, before anything starts."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from cyclopts import Parameter

from isopix.analysis import cost
from isopix.cli.console import Device, Json, SettingsFile, say, show_json, show_table
from isopix.cli.progress import clock
from isopix.core import device as devices
from isopix.papers import vit
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost, recipe_memory
from isopix.recipes.recipe import Recipe

Hours = Annotated[
    list[str] | None,
    Parameter(consume_multiple=True, help="devices to tell the cost on, as in A100 V100; all without it"),
]

Review = Annotated[
    bool,
    Parameter(
        negative="", help="in place of a recipe: what the review of the Vision Transformer reckons, corrected"
    ),
]


def plan(
    recipe: str | None = None,
    *settings: str,
    file: SettingsFile = None,
    device: Device = "auto",
    device_hours: Hours = None,
    price: float | None = None,
    utilisation: float = cost.MFU,
    review: Review = False,
    json: Json = False,
) -> None:
    """Parameters, FLOPs an image, memory and estimated time of a recipe, here and in hours of devices to
    rent; writes nothing.

    Example: isopix plan igpt.s --device-hours A100 H100 --price 2.5

    Parameters
    ----------
    recipe
        A name from `isopix recipe list`.
    settings
        Changes, as path=value.
    price
        Of an hour of one such device, in any money.
    utilisation
        Share of a device's data-sheet peak that is reached.
    """
    if review:
        if recipe is not None:
            raise ValueError(f"plan takes a recipe or --review, not both; given: {recipe}")
        show_review(json=json)
        return
    if recipe is None:
        raise ValueError("plan needs a recipe, as in `isopix plan igpt.s`, or --review")
    settled = registry.resolve(recipe, file=file, assignments=settings).recipe
    numbers = reckoned(settled, devices.pick(device))
    rents = cost.device_costs(
        numbers["images"] * numbers["training_flops"],
        settled.precision,
        devices=device_hours or (),
        mfu=utilisation,
        price_per_hour=price,
    )
    numbers |= {"utilisation": utilisation, "device_hours": [rent._asdict() for rent in rents]}
    if json:
        show_json(numbers)
        return
    show_here(settled, numbers)
    show_rents(rents, settled.precision, utilisation)


def reckoned(settled: Recipe, where: torch.device) -> dict[str, Any]:
    """What the recipe takes, and how long on this device."""
    costs, memory = recipe_cost(settled), recipe_memory(settled)
    rate = cost.training_throughput(where, settled.precision, settled.width) / costs.training_flops
    images = settled.steps * settled.batch
    return {
        "recipe": settled.name,
        "positions": settled.grid.positions,
        **costs._asdict(),
        **memory._asdict(),
        "step_bytes": memory.step_bytes(settled.batch // settled.accumulate),
        "free_bytes": devices.memory_free(where),
        "images": images,
        "device": devices.describe(where),
        "threads": torch.get_num_threads(),
        "images_per_second": rate,
        "seconds": images / rate,
    }


def show_here(settled: Recipe, numbers: Mapping[str, Any]) -> None:
    """What the recipe is, and what it takes of this machine."""
    title = f"{settled.name}: {settled.depth} x {settled.width} over {numbers['positions']} positions"
    piece = settled.batch // settled.accumulate
    rows = [
        ("parameters", f"{numbers['parameters']:,}"),
        ("FLOPs an image, forward", f"{numbers['forward_flops']:.3g}"),
        ("FLOPs an image, training", f"{numbers['training_flops']:.3g}"),
        ("memory for weights, gradients and Adam", size(numbers["weight_bytes"])),
        (f"memory of a step of {piece} images", size(numbers["step_bytes"])),
        ("free here", size(numbers["free_bytes"])),
        (f"{settled.steps:,} steps of {settled.batch}", f"{numbers['images']:,} images"),
        ("estimated rate here", f"{numbers['images_per_second']:.3g} images/s"),
        ("estimated time here", clock(numbers["seconds"])),
    ]
    show_table(title, ["", ""], rows)
    share = f"{cost.MFU:.0%} of what {numbers['device']} multiplies"
    say(f"The time assumes {share}. Nothing was written.")


def show_rents(rents: Sequence[cost.DeviceCost], precision: str, utilisation: float) -> None:
    """What the whole training takes of devices that are not here."""
    money = [] if rents[0].price is None else ["price"]
    rows = []
    for name, peak, *spent in rents:
        amounts = [amount(each) for each in spent if each is not None]
        rows.append((name, f"{peak / 1e12:,.1f}", *amounts))
    title = f"The whole training on one device, at {utilisation:.0%} of its {precision} peak"
    show_table(title, ["", "peak, TFLOP/s", "hours", *money], rows)


def show_review(*, json: bool) -> None:
    """The review's cost table to the dollar, its own words and what is wrong in them beside it."""
    bills = [(vit.training_price(each), each.review_price) for each in vit.PUBLISHED_TRAININGS]
    if json:
        networks = [{**found._asdict(), "review": words} for found, words in bills]
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
        for found, words in bills
    ]
    columns = ["", "TPUv3-hours", f"at ${vit.VM_PRICE + vit.TPU_PRICE}", "the review", "days of four V100s"]
    show_table("What pre-training costs, after the review of the Vision Transformer", columns, rows)
    for correction in vit.CORRECTIONS:
        say(correction)


def amount(count: float) -> str:
    """Hours or money: whole ones, or of few three digits."""
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}" if count >= 0.01 else "< 0.01"


def size(count: int | float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
