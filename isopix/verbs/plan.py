"""`isopix plan`: estimate the cost of a recipe before training."""

from typing import Annotated

from cyclopts import Parameter

from isopix.core.choices import MFU, Range
from isopix.core.verb import verb
from isopix.recipes.results import PlanResult
from isopix.verbs.options import DeviceLike, RecipeLike, Settings, SettingsFile

Devices = Annotated[
    tuple[str, ...],
    Parameter(consume_multiple=True),
    "Devices that train together, as COUNTxNAME; several to compare: 64xH100 8xA100. A number alone "
    "counts devices of this machine's kind.",
]
Price = Annotated[Annotated[float, Range(low=0)] | None, "Price of a device hour, in any currency."]
Utilization = Annotated[
    Annotated[float, Range(above=0, high=1)],
    "Assumed model FLOPs utilization (MFU): fraction of the device's data-sheet peak.",
]


@verb()
def plan(
    recipe: RecipeLike,
    *settings: Settings,
    file: SettingsFile = None,
    devices: Devices = (),
    price: Price = None,
    mfu: Utilization = MFU,
    device: DeviceLike = "auto",
) -> PlanResult:
    """Estimate parameters, FLOPs per image, memory and training time of a recipe; writes nothing.

    With --devices, also what fits on several devices by DDP and FSDP, and the command that trains.

    Example: isopix plan igpt.l --devices 64xH100 --price 2.5
    """
    from isopix.core import device as hardware
    from isopix.core.device import free_memory
    from isopix.recipes import cost, registry
    from isopix.recipes.sharding_memory import parallel_plans

    found = registry.resolve(recipe, file=file, settings=settings).recipe
    where, train, model = hardware.select_device(device), found.train, found.model
    words = [found.name, *settings, *(["--file", file] if file else [])]
    own = hardware.spec_name(where)
    plans = [plan for text in devices for plan in parallel_plans(found, text, words, own_device=own, mfu=mfu)]
    costs, flops, precision = cost.recipe_cost(found), cost.training_flops(found), train.precision_on(where)
    memory = cost.recipe_memory(found.updated(precision=precision))
    peak = hardware.peak_flops(where, precision) or cost.matmul_throughput(where, precision, model.width)
    return PlanResult(
        recipe=found.name,
        size=f"depth {model.depth}, width {model.width}",
        positions=found.grid.positions,
        steps=train.steps,
        batch_size=train.batch_size,
        accumulate=train.accumulate,
        precision=precision,
        gpu_precision=train.gpu_precision,
        **costs._asdict(),
        **memory._asdict(),
        step_bytes=memory.step_bytes(train.batch_size // train.accumulate),
        free_bytes=free_memory(where),
        device=hardware.describe_device(where),
        images_per_second=MFU * peak / costs.training_flops,
        mfu=mfu,
        price=price,
        device_hours=tuple(cost.device_costs(flops, train.gpu_precision, mfu=mfu, price_per_hour=price)),
        parallel=tuple(plans),
    )
