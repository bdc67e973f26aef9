"""`isopix plan`: what a recipe costs, before anything starts."""

import torch

from isopix.analysis import cost
from isopix.cli.console import Device, Json, SettingsFile, say, show_json, show_table
from isopix.cli.progress import clock
from isopix.core import device as devices
from isopix.recipes import catalogue
from isopix.recipes.cost import of_recipe


def plan(
    recipe: str, *settings: str, file: SettingsFile = None, device: Device = "auto", json: Json = False
) -> None:
    """Parameters, FLOPs an image, memory and estimated time of a recipe; writes nothing.

    Example: isopix plan igpt.s

    Parameters
    ----------
    recipe
        A name from `isopix recipe list`.
    settings
        Changes, as path=value.
    """
    settled = catalogue.resolve(recipe, file=file, assignments=settings).recipe
    costs, where = of_recipe(settled), devices.pick(device)
    rate = cost.speed(where, settled.precision, settled.width) / costs.training_flops
    images = settled.steps * settled.batch
    piece = settled.batch // settled.accumulate
    numbers = {
        "recipe": settled.name,
        "positions": settled.grid.positions,
        **costs._asdict(),
        "step_bytes": costs.bytes(piece),
        "free_bytes": devices.memory_free(where),
        "images": images,
        "device": devices.describe(where),
        "threads": torch.get_num_threads(),
        "images_per_second": rate,
        "seconds": images / rate,
    }
    if json:
        show_json(numbers)
        return
    title = f"{settled.name}: {settled.depth} x {settled.width} over {settled.grid.positions} positions"
    rows = [
        ("parameters", f"{costs.parameters:,}"),
        ("FLOPs an image, forward", f"{costs.forward_flops:.3g}"),
        ("FLOPs an image, training", f"{costs.training_flops:.3g}"),
        ("memory for weights, gradients and Adam", size(costs.weight_bytes)),
        (f"memory of a step of {piece} images", size(costs.bytes(piece))),
        (f"free on {where}", size(devices.memory_free(where))),
        (f"{settled.steps:,} steps of {settled.batch}", f"{images:,} images"),
        ("estimated rate here", f"{rate:.3g} images/s"),
        ("estimated time here", clock(images / rate)),
    ]
    show_table(title, ["", ""], rows)
    share = f"{cost.UTILISATION:.0%} of what {devices.describe(where)} multiplies"
    say(f"The time assumes {share}. Nothing was written.")


def size(count: int | float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
