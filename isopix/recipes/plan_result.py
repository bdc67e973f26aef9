"""The result of `plan`, without PyTorch: the cost of a training, and strategies on several devices."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Literal

from isopix.core.choices import MFU, Precision
from isopix.core.device_specs import DEVICE_SPECS, GB
from isopix.core.table import Table
from isopix.core.text import format_bytes, format_duration, spell_duration
from isopix.storage.result import Result


@dataclass(frozen=True)
class DeviceCost:
    """Hours of training on one device, and their price if a price per hour is given."""

    device: str
    peak_flops: float
    hours: float
    price: float | None


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of a device when a backward pass begins. DDP's buckets are the gradients. `copies` are the 16-bit
    copies of weights, and `gathered` the whole weights that FSDP holds at a time; `buffers` are its gradients
    on the way to being summed. `activations` do not include the gradients of the logits, which are `logits`.
    """

    weights: int
    gradients: int
    optimizer: int
    copies: int
    gathered: int
    buffers: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(vars(self).values())


@dataclass(frozen=True)
class ParallelPlan:
    """A strategy on `count` devices that train together, which compute `micro_batch` images at a time,
    `accumulate` times a step, and may use `memory_limit` bytes; `hours` are those of all steps at the assumed
    FLOP/s. Where nothing fits, the memory is the least that the strategy needs.
    """

    device: str
    count: int
    strategy: Literal["ddp", "fsdp"]
    accumulate: int
    micro_batch: int
    memory: DeviceMemory
    memory_limit: int
    recompute: bool = False
    hours: float = 0.0
    command: str = ""

    @property
    def devices(self) -> str:
        """The devices, as `64xH100`."""
        return f"{self.count}x{self.device}"

    @property
    def fits(self) -> bool:
        """Whether the memory is enough."""
        return self.memory.total <= self.memory_limit

    @property
    def name(self) -> str:
        """The strategy for people: `fsdp, recompute`."""
        strategy = self.strategy if self.count > 1 else "one device"
        return f"{strategy}, recompute" if self.recompute else strategy

    @property
    def settings(self) -> list[str]:
        """The settings of training that differ from the defaults."""
        parallel = [f"parallel={self.strategy}"] * (self.strategy != "ddp")
        chunks = [f"accumulate={self.accumulate}"] * (self.accumulate > 1)
        return [*parallel, *["recompute=true"] * self.recompute, *chunks]


class PlanResult(Result):
    """Cost of training a recipe; FLOPs are per image, bytes and seconds are estimates for `device`.

    Weight, copy and activation bytes are those of `TrainingMemory`, `step_bytes` their sum for one step.
    `device_hours` assume `mfu` of the peak FLOP/s, and so do the strategies of `parallel` on several devices.
    `price` is that of a device-hour.
    """

    recipe: str
    size: str
    positions: int
    steps: int
    batch_size: int
    accumulate: int
    precision: Precision
    gpu_precision: Precision
    parameters: int
    forward_flops: int
    training_flops: int
    weight_bytes: int
    copy_bytes: int
    activation_bytes: int
    step_bytes: int
    free_bytes: int
    device: str
    images_per_second: float
    mfu: float
    price: float | None
    device_hours: tuple[DeviceCost, ...]
    parallel: tuple[ParallelPlan, ...] = ()

    @property
    def images(self) -> int:
        """The number of images trained on."""
        return self.steps * self.batch_size

    @property
    def images_at_a_time(self) -> int:
        """The images of a chunk of a batch."""
        return self.batch_size // self.accumulate

    @property
    def seconds(self) -> float:
        """The time of training on `device`."""
        return self.images / self.images_per_second

    def recommended(self, plan: ParallelPlan) -> bool:
        """Whether no strategy that fits the same devices takes fewer hours; DDP comes first."""
        fitting = [each for each in self._same_devices(plan) if each.fits]
        return bool(fitting) and plan is min(fitting, key=lambda each: each.hours)

    def remedies(self, plan: ParallelPlan) -> list[str]:
        """Return what would fit where a plan does not: the settings of others of the same devices, and the
        smallest device whose memory is enough.
        """
        found = [" ".join(each.settings) or "parallel=ddp" for each in self._same_devices(plan) if each.fits]
        needed = plan.memory.total / plan.memory_limit * DEVICE_SPECS[plan.device].memory
        sizes = {name: spec.memory for name, spec in DEVICE_SPECS.items() if spec.is_gpu}
        larger = [name for name in sorted(sizes, key=lambda name: sizes[name]) if sizes[name] >= needed]
        return [*found, *(f"{plan.count}x{name}" for name in larger[:1])]

    def _same_devices(self, plan: ParallelPlan) -> list[ParallelPlan]:
        return [each for each in self.parallel if each.devices == plan.devices]

    def tables(self) -> list[Table]:
        """Return the estimate for this device and the hours on others, or strategies on several devices."""
        if not self.parallel:
            return [self._estimate(), self._hours()]
        by_devices = groupby(self.parallel, key=lambda plan: plan.devices)
        return [table for _, plans in by_devices for table in self._strategies(list(plans))]

    def notes(self) -> list[str]:
        """Return what is assumed, what fits and the command that trains."""
        if not self.parallel:
            return [f"The time assumes {MFU:.0%} of the measured matmul throughput of {self.device}."]
        lines = [
            f"{each.devices}: {each.name} does not fit: {_gigabytes(each.memory.total)} GB of "
            f"{_gigabytes(each.memory_limit)} GB; what fits: {' or '.join(self.remedies(each)) or 'nothing'}"
            for each in self.parallel
            if not each.fits
        ]
        lines += [f"{each.devices}: {each.command}" for each in self.parallel if self.recommended(each)]
        assumed = f"Times assume {self.mfu:.0%} of the peak FLOP/s and free communication; * is recommended."
        return [*lines, assumed]

    def _estimate(self) -> Table:
        rows = [
            ("parameters", f"{self.parameters:,}"),
            ("FLOPs per image, forward", f"{self.forward_flops:.3g}"),
            ("FLOPs per image, training", f"{self.training_flops:.3g}"),
            ("memory: weights, gradients, optimizer state", format_bytes(self.weight_bytes)),
            ("precision", self.precision),
            (
                f"memory: training step, batch of {self.batch_size // self.accumulate}",
                format_bytes(self.step_bytes),
            ),
            ("memory: available", format_bytes(self.free_bytes)),
            ("training images", f"{self.images:,} ({self.steps:,} steps, batch size {self.batch_size})"),
            ("estimated throughput", f"{self.images_per_second:.3g} img/s"),
            ("estimated time", spell_duration(self.seconds)),
        ]
        return Table(f"{self.recipe}: {self.size}, {self.positions:,} positions", ["quantity", "value"], rows)

    def _hours(self) -> Table:
        caption = f"Training on one device at {self.mfu:.0%} of its {self.gpu_precision} peak"
        rows = [
            (
                each.device,
                f"{each.peak_flops / 1e12:,.1f}",
                format_amount(each.hours),
                *self._price(each.hours),
            )
            for each in self.device_hours
        ]
        return Table(caption, ["device", "peak TFLOP/s", "hours", *self._price_title], rows)

    def _strategies(self, plans: Sequence[ParallelPlan]) -> list[Table]:
        first = plans[0]
        rows = [
            (
                f"{each.name} *" if self.recommended(each) else each.name,
                f"{each.micro_batch} x {each.accumulate}",
                _gigabytes(each.memory.total),
                format_duration(3600 * each.hours) if each.fits else "does not fit",
                *self._price(each.hours * each.count),
            )
            for each in plans
        ]
        size = f"{DEVICE_SPECS[first.device].memory / GB:,.0f} GB each"
        columns = ["strategy", "images", "GB", "time", *self._price_title]
        parts = [
            (part.name, *(_gigabytes(getattr(each.memory, part.name)) for each in plans))
            for part in fields(DeviceMemory)
        ]
        return [
            Table(f"{self.recipe} on {first.devices}, {size}", columns, rows),
            Table("GB of memory of each device", ["part", *(each.name for each in plans)], parts),
        ]

    @property
    def _price_title(self) -> list[str]:
        return [] if self.price is None else ["cost"]

    def _price(self, hours: float) -> list[str]:
        return [] if self.price is None else [format_amount(hours * self.price)]


def format_amount(count: float) -> str:
    """Format hours or money: integers from 100, else three significant digits."""
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}" if count >= 0.01 else "< 0.01"


def _gigabytes(count: int | float) -> str:
    return f"{count / GB:,.2f}" if count < GB else f"{count / GB:,.1f}"
