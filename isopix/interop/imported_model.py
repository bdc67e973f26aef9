"""Imported: what is known of somebody else's model once its files are read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import starmap

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Grid
from isopix.interop.mmap_alloc import scratch
from isopix.interop.name_tables import Account, Row
from isopix.model.blocks import TransformerSpec
from isopix.objectives.base import ObjectiveSpec
from isopix.storage.atomic import MAX_JSON, json_bytes

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Imported:
    """A model in our names and layouts; `accounts` has every tensor of the source, none left out in silence.

    `tensors` are float32 on the CPU, by the names of `Network.tensors()` without the codec's.
    """

    origin: str  # in words, for records: `Hugging Face openai/imagegpt-small`, `OpenAI model.ckpt-131000`
    depth: int
    width: int
    grid: Grid
    block: TransformerSpec
    objective: ObjectiveSpec
    colours: Float[Tensor, "K 3"]  # levels of 0..255
    step: int  # how long it was trained, 0 where that is not known
    tensors: Mapping[str, Tensor]
    accounts: tuple[Account, ...]


def as_many(positions: int, grid: Grid) -> Grid:
    """The grid, which a user gave. Raises ValueError if it has another number of positions."""
    if grid.positions != positions:
        raise ValueError(f"it has {positions} positions; {grid.rows} x {grid.cols} are {grid.positions}")
    return grid


def check_accounts(accounts: Iterable[Account]) -> None:
    """Raises ValueError if they are more than a record of them can be, before anything is read for it."""
    size = len(json_bytes({"tensors": [account._asdict() for account in accounts]}))
    if size > MAX_JSON // 2:  # the other half is for all else
        raise ValueError(f"the list of its tensors has {size:,} bytes; at most {MAX_JSON // 2:,} are kept")


def translate(
    rows: Iterable[Row], shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], Tensor]
) -> tuple[dict[str, Tensor], list[Account]]:
    """Our tensors, made row by row from theirs as `read` gives them: one row's are held twice at a time.

    `shapes` states what each of their tensors must be. Raises ValueError that names the tensor whose shape is
    another.
    """
    ours: dict[str, Tensor] = {}
    accounts: list[Account] = []
    for row in rows:
        given = [checked(name, read(name), shapes[name]) for name in row.theirs]
        single = tuple(starmap(_float32, zip(row.theirs, given, strict=True)))
        for name, tensor in zip(row.ours, row.read(single), strict=True):
            ours[name] = scratch(tensor.shape, torch.float32).copy_(tensor)
        accounts += [
            Account(name, row.ours, rounded=_rounded(*pair))
            for name, *pair in zip(row.theirs, given, single, strict=True)
        ]
    return ours, accounts


def checked(name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The tensor itself. Raises ValueError if it has another shape, or elements that are no weights."""
    if tuple(tensor.shape) != shape:
        raise ValueError(f"tensor '{name}' has shape {tuple(tensor.shape)}; this model needs {shape}")
    if tensor.dtype not in DTYPES:
        raise ValueError(f"tensor '{name}' has elements of {tensor.dtype}; weights are floating point")
    return tensor


def _float32(name: str, tensor: Tensor) -> Tensor:
    """The tensor as our networks hold it. Raises ValueError if it has elements that are not finite then."""
    single = tensor
    if tensor.dtype != torch.float32:
        single = scratch(tensor.shape, torch.float32).copy_(tensor)
    if not all(bound.isfinite() for bound in single.aminmax()):
        raise ValueError(f"tensor '{name}' has elements that are not finite in float32")
    return single


def _rounded(given: Tensor, single: Tensor) -> str:
    """The type of a tensor whose numbers are others in float32."""
    kept = given.dtype != torch.float64 or torch.equal(given, single.double())
    return "" if kept else "float64"
