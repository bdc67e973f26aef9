"""Results of `recipe` and `plan`, without PyTorch."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from isopix.core.device_specs import DEVICE_SPECS


class ModelCost(NamedTuple):
    """Number of parameters, and FLOPs per image."""

    parameters: int
    forward_flops: int
    training_flops: int


class TrainingMemory(NamedTuple):
    """Bytes that training needs: for weights, gradients and optimizer moments; for what a step derives from
    the weights alone, such as their 16-bit copies; and for the activations of one image.
    """

    weight_bytes: int
    copy_bytes: int
    activation_bytes: int

    def step_bytes(self, batch_size: int) -> int:
        """Return the memory of one step over this many images."""
        return self.weight_bytes + self.copy_bytes + batch_size * self.activation_bytes


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

    def remedies(self, plans: "list[ParallelPlan]") -> list[str]:
        """Return what would fit where this plan does not: the settings of others of the same devices, and the
        smallest device whose memory is enough.
        """
        same = [each for each in plans if (each.device, each.count) == (self.device, self.count)]
        found = [" ".join(each.settings) or "parallel=ddp" for each in same if each.fits]
        needed = self.memory.total / self.memory_limit * DEVICE_SPECS[self.device].memory
        sizes = {name: spec.memory for name, spec in DEVICE_SPECS.items() if spec.is_gpu}
        larger = [name for name in sorted(sizes, key=lambda name: sizes[name]) if sizes[name] >= needed]
        return [*found, *(f"{self.count}x{name}" for name in larger[:1])]
