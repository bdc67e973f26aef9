"""Training cost of a network, estimated before training: parameters, FLOPs, memory and time."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, UntypedStorage
from torch.autograd.graph import saved_tensors_hooks

from isopix.codecs.base import Codec
from isopix.core.choices import MFU
from isopix.core.device import Precision, autocast, peak_flops, peak_flops_by_device, synchronize
from isopix.core.random import generator
from isopix.model.network import Network
from isopix.objectives.base import ObjectiveSpec, PretrainModel

BYTES_PER_PARAMETER = 16  # float32 weight, gradient, and Adam's two moments
SMALL_BATCH, LARGE_BATCH = 8, 16  # memory per image is the slope between steps of these two sizes


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


class DeviceCost(NamedTuple):
    """Hours of training on one device, and their price if a price per hour is given."""

    device: str
    peak_flops: float
    hours: float
    price: float | None


def device_costs(
    flops: int | float,
    precision: Precision,
    *,
    devices: Sequence[str] = (),
    mfu: float = MFU,
    price_per_hour: float | None = None,
) -> list[DeviceCost]:
    """Return the cost of this many FLOPs on each of `devices`, by default on all known devices.

    hours = FLOPs / (data-sheet peak at this precision * mfu) / 3600. The number of device-hours is the same
    for several devices if communication costs nothing. Raises ValueError for an unknown device, a device
    without a data-sheet peak at this precision, and an invalid `mfu` or `price_per_hour`.
    """
    if not 0 < mfu <= 1:
        raise ValueError(f"utilization {mfu} must be in (0, 1]")
    if price_per_hour is not None and not 0 <= price_per_hour < float("inf"):
        raise ValueError(f"price {price_per_hour} must be a finite number of at least 0")
    peaks = peak_flops_by_device(precision)
    for name in devices:
        if name not in peaks:
            raise ValueError(f"no {precision} peak of device '{name}' is known; known: {', '.join(peaks)}")
    hours = {name: flops / (peaks[name] * mfu) / 3600 for name in devices or peaks}
    return [
        DeviceCost(name, peaks[name], each, None if price_per_hour is None else each * price_per_hour)
        for name, each in hours.items()
    ]


class ForwardFlops(NamedTuple):
    """FLOPs of one image's forward pass, of the stem, one block and the head; a multiply-add is two FLOPs."""

    stem: int
    block: int
    head: int
    depth: int


def model_cost(network: Network, flops: ForwardFlops) -> ModelCost:
    """Return the cost of a network whose forward pass takes these FLOPs per image.

    Training takes three times the forward pass, and that of the blocks once more where they are recomputed.
    All blocks are counted in full, although a masked objective computes the last transformer block only at
    the positions in the loss.
    """
    blocks = flops.depth * flops.block
    forward = flops.stem + blocks + flops.head
    again = blocks if network.backbone.recompute else 0
    return ModelCost(num_parameters(network), forward, 3 * forward + again)


def num_parameters(network: Network) -> int:
    """Return the number of parameters."""
    return sum(parameter.numel() for parameter in network.parameters())


def training_memory(
    model: PretrainModel, precision: Precision, *, outputs_per_position: int
) -> TrainingMemory:
    """Estimate the memory of training with Adam in float32.

    The sum of 16 bytes per parameter, all tensors saved for the backward pass, and the gradient of the head's
    float32 outputs at the positions in the loss, which is allocated while all activations are still held. Of
    blocks that are recomputed, the inputs of all and the other tensors of one.

    The network may be built under `FakeTensorMode`: only masks and codes are computed. The step is a CPU's;
    GPU kernels and compiled code save other tensors. Gradients of other layers and allocator overhead come on
    top.
    """
    small, large = (_saved_bytes(model, precision, size) for size in (SMALL_BATCH, LARGE_BATCH))
    per_image = (large - small) // (LARGE_BATCH - SMALL_BATCH)
    gradient = 4 * outputs_per_position * decoded_positions(model.objective, model.network.codec)
    return TrainingMemory(
        BYTES_PER_PARAMETER * num_parameters(model.network),
        max(0, small - SMALL_BATCH * per_image),
        per_image + gradient,
    )


def _saved_bytes(model: PretrainModel, precision: Precision, batch_size: int) -> int:
    """Return the bytes that a step over black images saves for the backward pass, without the weights."""
    codec = model.network.codec
    black = torch.zeros(
        batch_size,
        3,
        codec.grid.rows * codec.patch_size,
        codec.grid.cols * codec.patch_size,
        dtype=torch.uint8,
    )
    batch = model.make_batch(black, generator(0, "memory"))

    def saved() -> int:
        with autocast(black.device, precision):
            return activation_bytes(lambda: model(batch), exclude=model.network.tensors().values())

    backbone = model.network.backbone
    if not backbone.recompute or not backbone.depth:
        return saved()
    calls: list[int] = []  # of blocks that are recomputed: their inputs are saved, and nothing else of them
    hooks = [block.register_forward_pre_hook(lambda *_: calls.append(1)) for block in backbone.blocks]
    outside = saved()
    for hook in hooks:
        hook.remove()
    backbone.recompute = False
    blocks = saved() - outside
    backbone.recompute = True
    return outside + blocks // max(1, len(calls))


def decoded_positions(objective: ObjectiveSpec, codec: Codec) -> int:
    """Return the expected number of positions per image with any code in the loss: those the head decodes."""
    positions = codec.grid.positions
    return round(positions * objective.decoded_fraction(positions, codec.num_codes))


def matmul_throughput(device: torch.device, precision: Precision, width: int, seconds: float = 0.4) -> float:
    """Measure the FLOP/s of [2048 x D] @ [D x 4D] products on this device for about `seconds`."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    left = torch.zeros(2048, width, dtype=dtype, device=device)
    right = torch.zeros(width, 4 * width, dtype=dtype, device=device)
    left @ right
    synchronize(device)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        left @ right
        synchronize(device)
        count += 1
    return count * 2 * 2048 * width * 4 * width / (time.perf_counter() - start)


def training_throughput(device: torch.device, precision: Precision, width: int) -> float:
    """Estimate the FLOP/s of training: `MFU` times the data-sheet peak, or the measured matmul throughput."""
    peak = peak_flops(device, precision)
    return MFU * (peak if peak is not None else matmul_throughput(device, precision, width))


def activation_bytes(forward: Callable[[], Tensor], *, exclude: Iterable[Tensor]) -> int:
    """Return the bytes that a forward pass saves for backward, shared ones once, without `exclude`."""
    storages: dict[int, UntypedStorage] = {}  # holding them keeps their ids unique

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[id(storage)] = storage
        return tensor

    with saved_tensors_hooks(save, lambda tensor: tensor):
        forward()
    excluded = {id(tensor.untyped_storage()) for tensor in exclude}
    return sum(storage.nbytes() for key, storage in storages.items() if key not in excluded)
