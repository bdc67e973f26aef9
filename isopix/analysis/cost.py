"""Cost of a network before anything starts: parameters, FLOPs, memory, time."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

from isopix.codecs.base import Codec
from isopix.core.device import Precision, autocast, peak_flops, sheets, synchronise
from isopix.core.random import generator
from isopix.model.network import Network
from isopix.model.profiling import activation_bytes
from isopix.objectives.base import ObjectiveSpec, PretrainModel

BYTES_PER_PARAMETER = 16  # float32 weight, gradient, and Adam's two moments
FEW, MORE = 8, 16  # images of the two steps whose difference is what one of them needs
UTILISATION = 0.4  # of a device's peak; what well-kept code reaches at these widths


class Cost(NamedTuple):
    """What one recipe costs; FLOPs are of one image."""

    parameters: int
    forward_flops: int
    training_flops: int


class Memory(NamedTuple):
    """Bytes that training takes: of the weights with their gradients and moments; of what a step makes of the
    weights alone, as copies in 16 bits; and of each image.
    """

    weight_bytes: int
    copy_bytes: int
    activation_bytes: int

    def bytes(self, images: int) -> int:
        """Memory of one step over this many images at once."""
        return self.weight_bytes + self.copy_bytes + images * self.activation_bytes


class Rent(NamedTuple):
    """What a training takes of one device: hours, and money at the price of an hour, if that is given."""

    device: str
    peak_flops: float
    hours: float
    money: float | None


def rents(
    flops: int | float,
    precision: Precision,
    *,
    devices: Sequence[str] = (),
    utilisation: float = UTILISATION,
    price: float | None = None,
) -> list[Rent]:
    """hours = FLOPs / (data sheet's peak at this precision x utilisation) / 3600 of each of these devices, or
    of all that are known; money = hours x `price`, the price of an hour of one device.

    Several devices take as many device-hours, if they lose nothing to one another. Raises ValueError for an
    unknown device, one that states no peak at this precision, and numbers that make no sense.
    """
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation {utilisation} must lie in (0, 1]")
    if price is not None and not 0 <= price < float("inf"):
        raise ValueError(f"price {price} must be a number of at least 0")
    peaks = sheets(precision)
    for name in devices:
        if name not in peaks:
            raise ValueError(f"no {precision} peak of device '{name}' is known; known: {', '.join(peaks)}")
    hours = {name: flops / (peaks[name] * utilisation) / 3600 for name in devices or peaks}
    return [
        Rent(name, peaks[name], each, None if price is None else each * price) for name, each in hours.items()
    ]


class Work(NamedTuple):
    """FLOPs of one image's forward pass: a multiply-add is two FLOPs."""

    stem: int
    block: int
    head: int
    depth: int


def cost(network: Network, work: Work) -> Cost:
    """Counts of a network that does this work an image.

    Training is three times the forward pass. Every block is counted whole, though a masked objective asks the
    last transformer block of graded positions alone.
    """
    forward = work.stem + work.depth * work.block + work.head
    return Cost(parameters(network), forward, 3 * forward)


def parameters(network: Network) -> int:
    """How many parameters there are."""
    return sum(parameter.numel() for parameter in network.parameters())


def memory(model: PretrainModel, precision: Precision, *, numbers: int) -> Memory:
    """What training takes: 16 bytes a parameter in float32 with Adam; all that a step's forward pass keeps
    for the backward one; and the gradient of the head's float32 numbers, so many for each position that it
    decodes, which comes while all is kept.

    The network may be one whose tensors have shapes and no numbers (torch's `FakeTensorMode`): nothing is
    computed but masks and codes. The step is a CPU's: what a GPU's kernels, or the compiler's, keep differs.
    Gradients of other layers, and what an allocator wastes, come on top.
    """
    few, more = (_kept(model, precision, images) for images in (FEW, MORE))
    each = (more - few) // (MORE - FEW)
    gradient = 4 * numbers * decoded(model.objective, model.network.codec)
    return Memory(BYTES_PER_PARAMETER * parameters(model.network), max(0, few - FEW * each), each + gradient)


def _kept(model: PretrainModel, precision: Precision, images: int) -> int:
    """Bytes that a step over so many black images keeps beside the weights."""
    codec = model.network.codec
    black = torch.zeros(
        images, 3, codec.grid.rows * codec.patch_size, codec.grid.cols * codec.patch_size, dtype=torch.uint8
    )
    batch = model.make_batch(black, generator(0, "memory"))
    with autocast(black.device, precision):
        return activation_bytes(lambda: model(batch), exclude=model.network.tensors().values())


def decoded(objective: ObjectiveSpec, codec: Codec) -> int:
    """How many positions of an image have something graded, on average: those that the head decodes."""
    positions = codec.grid.positions
    return round(positions * objective.decoded_fraction(positions, codec.num_codes))


def matrix_rate(device: torch.device, precision: Precision, width: int, seconds: float = 0.4) -> float:
    """FLOP/s of [2048 x D] times [D x 4D] products on this device, measured for about `seconds`."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    left = torch.zeros(2048, width, dtype=dtype, device=device)
    right = torch.zeros(width, 4 * width, dtype=dtype, device=device)
    left @ right
    synchronise(device)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        left @ right
        synchronise(device)
        count += 1
    return count * 2 * 2048 * width * 4 * width / (time.perf_counter() - began)


def speed(device: torch.device, precision: Precision, width: int) -> float:
    """FLOP/s to expect of training: a share of the data sheet's peak, or of what a matrix product reaches
    here.
    """
    peak = peak_flops(device, precision)
    return UTILISATION * (peak if peak is not None else matrix_rate(device, precision, width))
