"""Attention in blocks of scores, next to PyTorch's kernel, in training and without gradients.

It is measured in the precision of the device, also where it is not used: in fp32, and with AMX; in blocks of
fewer and more queries, whose errors are those of the output in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import torch
from speed.benchmark import OWN, TINY, Benchmark, Measured, Size
from speed.numerics import TOLERANCES, require_close
from speed.timing import DTYPES, Stopwatch, Work
from speed.training import matmul_bounds
from torch import Tensor
from torch.nn import functional as F

from isopix.core.random import generator
from isopix.model import blockwise_attention
from isopix.model.blockwise_attention import attend_in_blocks

BLOCKS = (64, 128, 512, 1024)  # other numbers of queries; without effect on attention to all keys
TOLERANCE = TOLERANCES | {"bf16": 0.05}  # to which both sides round

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Call = Callable[[], list[Tensor]]  # returns the output, and the gradients


@dataclass(frozen=True)
class AttentionSize(Size):
    """Random queries, keys and values [sequences heads positions channels]; with `backward`, the gradients of
    all three, too.
    """

    sequences: int
    heads: int
    positions: int
    channels: int
    causal: bool
    backward: bool = True

    def label(self) -> str:
        keys = "causal" if self.causal else "all keys"
        passes = "forward and backward" if self.backward else "forward"
        shape = f"{self.sequences} x {self.heads} x {self.positions} x {self.channels}"
        return f"{shape}, {keys}, {passes}"


def measure_attention(size: AttentionSize, watch: Stopwatch) -> Measured:
    shape = (size.sequences, size.heads, size.positions, size.channels)
    draw = generator(0, "bench.attention")
    *inputs, weight = (
        torch.randn(shape, generator=draw).to(watch.device, DTYPES[watch.precision]) for _ in range(4)
    )

    def call(attend: Attend) -> Call:
        return partial(gradients if size.backward else forward, attend, inputs, weight)

    ours: Attend = partial(attend_in_blocks, causal=size.causal)
    theirs: Attend = partial(F.scaled_dot_product_attention, is_causal=size.causal)
    found, expected = (torch.stack(gradients(attend, inputs, weight)).float() for attend in (ours, theirs))
    checked = require_close("output and gradients", found, expected, TOLERANCE[watch.precision])
    peer = f"torch {torch.__version__} scaled_dot_product_attention"
    calls = {OWN: call(ours), peer: call(theirs)} | {
        f"blocks of {n}": in_blocks_of(n, call(ours)) for n in BLOCKS
    }
    works = {name: Work(call=each, items=size.sequences) for name, each in calls.items()}
    timed = watch.alternate({name: {watch.precision: each} for name, each in works.items()})
    exact, values = theirs(*(each.float() for each in inputs)), dict[str, float | int | None]()
    for name, each in calls.items():
        values[f"seconds, {name}"] = timed.times[name][watch.precision].median
        values[f"mean error, {name}"] = float((each()[0] - exact).abs().mean())
    pairs = size.positions**2 / (1 + size.causal)
    bounds = matmul_bounds(4 * size.heads * size.channels * pairs * (1 + 2 * size.backward), 64, watch)
    times = {name: timed.times[name] for name in (OWN, peer)} | bounds
    return Measured(checked=checked, times=times, errors=timed.errors, item="sequence", values=values)


def in_blocks_of(queries: int, call: Call) -> Call:
    def call_in_those() -> list[Tensor]:
        with patch.object(blockwise_attention, "BLOCK_QUERIES", queries):
            return call()

    return call_in_those


@torch.no_grad()
def forward(attend: Attend, inputs: list[Tensor], weight: Tensor) -> list[Tensor]:
    """Return the output; `weight` has no effect."""
    return [attend(*inputs)]


def gradients(attend: Attend, inputs: list[Tensor], weight: Tensor) -> list[Tensor]:
    leaves = [each.detach().requires_grad_() for each in inputs]
    output = attend(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, weight)]


PEER = "PyTorch's scaled_dot_product_attention"
SHAPES = {  # sequences, heads, positions, channels; causal, backward
    "causal": AttentionSize(16, 2, 1024, 64, causal=True),
    "one-head": AttentionSize(4, 1, 1024, 128, causal=False),
    "patches": AttentionSize(32, 4, 196, 32, causal=False),
    "digits": AttentionSize(128, 2, 64, 32, causal=True),
    "causal-forward": AttentionSize(16, 2, 1024, 64, causal=True, backward=False),
}
SMALLEST = {"causal": {TINY: AttentionSize(2, 2, 9, 4, causal=True)}}
BENCHMARKS = tuple(
    Benchmark(
        f"attention.{name}",
        "attention in blocks",
        PEER,
        measure_attention,
        {"cpu": size} | SMALLEST.get(name, {}),
    )
    for name, size in SHAPES.items()
)
