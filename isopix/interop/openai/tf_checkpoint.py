"""Bundle: TensorFlow's checkpoint of version 2, one index of names and any number of files of bytes.

`PREFIX.index` is a sorted table: its first key, the empty one, is a header; every other is a tensor's name,
whose value says where in which `PREFIX.data-XXXXX-of-YYYYY` the tensor lies. What follows from the index is
checked when it is opened, before a tensor takes memory; a tensor's own bytes are checked when it is read.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from isopix.interop.mmap_alloc import scratch
from isopix.interop.openai import sstable
from isopix.interop.openai.crc32c import extend, masked
from isopix.interop.openai.protobuf import Message, message, messages, number

VERSION = 1  # of the format; what needs more of its reader is refused
BIGGEST_INDEX = 2**26  # bytes; iGPT-L's with all its optimizer's slots has about 2^18
MOST_TENSORS = 2**16
MOST_SHARDS = 10_000
MOST_DIMENSIONS = 8
LARGEST_DIMENSION = 2**31
PIECE = 2**22  # bytes that are read, and then checked, at once

# TensorFlow's numbers of types; those without a dtype here are listed, and refused when they are read.
DTYPES = {
    1: torch.float32,
    2: torch.float64,
    3: torch.int32,
    4: torch.uint8,
    5: torch.int16,
    6: torch.int8,
    9: torch.int64,
    14: torch.bfloat16,
    19: torch.float16,
}
OTHERS = {7: "string", 8: "complex64", 10: "bool", 17: "uint16", 18: "complex128", 22: "uint32", 23: "uint64"}


class Entry(NamedTuple):
    """What the index says of one tensor."""

    dtype: str  # in words: float32
    shape: tuple[int, ...]
    shard: int
    offset: int  # bytes from the beginning of the shard
    size: int  # bytes
    crc: int  # masked CRC-32C of the bytes

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True)
class Bundle:
    """An opened checkpoint: what it holds, and `read`, which takes one tensor from it."""

    prefix: Path
    shards: int
    big_endian: bool
    entries: Mapping[str, Entry]

    @classmethod
    def open(cls, given: Path) -> "Bundle":
        """The checkpoint of that prefix, of that `.index` file, or the only one in that folder.

        Raises ValueError, naming the file, if there is none, or if its index or the sizes of its shards are
        not as they must be.
        """
        prefix = find(given)
        index = _index(prefix)
        try:
            bundle = cls._of(prefix, sstable.items(_read_index(index)))
        except ValueError as error:
            raise ValueError(f"checkpoint index {index}: {error}") from None
        placed = sorted(bundle.entries.items(), key=lambda item: item[1][2:5])  # by shard, offset, size
        for shard, inside in itertools.groupby(placed, key=lambda item: item[1].shard):
            bundle._check_shard(shard, inside)
        return bundle

    @classmethod
    def _of(cls, prefix: Path, items: Iterator[tuple[bytes, bytes]]) -> "Bundle":
        key, value = next(items, (b"", b""))
        if key:
            raise ValueError(f"it begins with key {key!r} and not with a header")
        shards, big_endian = _header(message(value))
        return cls(prefix, shards, big_endian, _entries(items, shards))

    def shard(self, shard: int) -> Path:
        """The file of that number; named from the prefix and numbers, never from anything in a file."""
        return self.prefix.with_name(f"{self.prefix.name}.data-{shard:05d}-of-{self.shards:05d}")

    def read(self, name: str) -> Tensor:
        """That tensor, read from its shard straight into its own memory; little or big endian.

        Raises KeyError for a name that is not in `entries`, and ValueError if its type is none that is read
        or if its bytes are not those that were written.
        """
        entry = self.entries[name]
        dtypes = {_word(dtype): dtype for dtype in DTYPES.values()}
        if entry.dtype not in dtypes:
            allowed = ", ".join(dtypes)
            raise ValueError(f"tensor {name!r} of {self.prefix} has type {entry.dtype}; read are {allowed}")
        tensor = scratch(entry.shape, dtypes[entry.dtype])
        raw = tensor.view(-1).view(torch.uint8).numpy()
        self._fill(name, entry, raw.data)
        if self.big_endian and tensor.itemsize > 1:
            raw.view(np.dtype(f"u{tensor.itemsize}")).byteswap(inplace=True)
        return tensor

    def _fill(self, name: str, entry: Entry, memory: memoryview) -> None:
        crc, path = 0, self.shard(entry.shard)
        with path.open("rb") as file:
            file.seek(entry.offset)
            for begin in range(0, entry.size, PIECE):
                piece = memory[begin : begin + PIECE]
                if file.readinto(piece) < len(piece):
                    raise ValueError(f"checkpoint shard {path} is truncated: it ends inside tensor {name!r}")
                crc = extend(crc, piece)
        if masked(crc) != entry.crc:
            raise ValueError(f"checkpoint shard {path}: tensor {name!r} is damaged; its checksum differs")

    def _check_shard(self, shard: int, inside: Iterator[tuple[str, Entry]]) -> None:
        """Its tensors lie inside the file and apart, so together they take no more than it holds."""
        path = self.shard(shard)
        if not path.is_file():
            raise ValueError(f"checkpoint shard {path} does not exist; all {self.shards} belong together")
        size, end, last = path.stat().st_size, 0, ""
        for name, entry in inside:
            if entry.offset < end:
                raise ValueError(
                    f"checkpoint index {_index(self.prefix)}: tensors {last!r} and {name!r} overlap"
                )
            end, last = entry.end, name
            if end > size:
                raise ValueError(
                    f"checkpoint shard {path} has {size} bytes; tensor {name!r} would end at {end}: "
                    f"the shard is truncated, or the index is wrong"
                )


def find(given: Path) -> Path:
    """The prefix of the checkpoint that is meant. Raises ValueError if there is none, or more than one."""
    prefix = given.with_suffix("") if given.suffix == ".index" else given
    if prefix.name and _index(prefix).is_file():
        return prefix
    if not given.is_dir():
        raise ValueError(
            f"checkpoint index {_index(prefix)} does not exist; give a PREFIX with a PREFIX.index"
        )
    found = sorted(path for path in given.glob("*.index") if path.is_file())
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:10]) or "none"
        raise ValueError(f"folder {given} holds {len(found)} checkpoints ({names}); give the prefix of one")
    return found[0].with_suffix("")


def _index(prefix: Path) -> Path:
    return prefix.parent / f"{prefix.name}.index"


def _read_index(path: Path) -> bytes:
    if path.stat().st_size > BIGGEST_INDEX:
        raise ValueError(f"it has {path.stat().st_size} bytes; allowed: {BIGGEST_INDEX}")
    return path.read_bytes()


def _header(fields: Message) -> tuple[int, bool]:
    """Number of shards, and whether the numbers in them begin with their highest byte."""
    shards, endianness = number(fields, 1), number(fields, 2)
    if not 1 <= shards <= MOST_SHARDS:
        raise ValueError(f"its header speaks of {shards} shards; allowed: 1 to {MOST_SHARDS}")
    if endianness not in (0, 1):
        raise ValueError(f"its header states byte order {endianness}; known: 0 (little), 1 (big)")
    for version in messages(fields, 3):
        needed = number(version, 2)
        if needed > VERSION or number(version, 1) < 0 or 3 in version:  # 3: readers that it shuts out
            raise ValueError(f"its header asks for a reader of version {needed}; this is one of {VERSION}")
    return shards, endianness == 1


def _entries(items: Iterator[tuple[bytes, bytes]], shards: int) -> dict[str, Entry]:
    entries = {}
    for key, value in itertools.islice(items, MOST_TENSORS):
        name = _name(key)
        try:
            entries[name] = _entry(message(value), shards)
        except ValueError as error:
            raise ValueError(f"tensor {name!r}: {error}") from None
    if next(items, None):
        raise ValueError(f"it names more than {MOST_TENSORS} tensors")
    return entries


def _name(key: bytes) -> str:
    if key[0] == 0:  # what TensorFlow puts before the pieces of a partitioned variable
        raise ValueError("it holds slices of partitioned variables; only tensors stored whole are read")
    name = key.decode(errors="replace")
    if not name.isprintable() or "\N{REPLACEMENT CHARACTER}" in name:
        raise ValueError(f"a tensor is named {key!r}, which is no text")
    if {"", ".", ".."} & set(name.replace("\\", "/").split("/")):
        raise ValueError(f"a tensor is named {name!r}, which is a path and no name in a graph")
    return name


def _entry(fields: Message, shards: int) -> Entry:
    if 7 in fields:
        raise ValueError(
            "it is stored in slices (a partitioned variable); only tensors stored whole are read"
        )
    kind, shape = number(fields, 1), _shape(fields)
    entry = Entry(_type(kind), shape, *(number(fields, field) for field in (3, 4, 5, 6)))
    if not 0 <= entry.shard < shards:
        raise ValueError(f"it lies in shard {entry.shard} of {shards}")
    if entry.offset < 0 or entry.size < 0:
        raise ValueError(f"it begins at byte {entry.offset} and has {entry.size} bytes")
    needed = math.prod(shape) * DTYPES[kind].itemsize if kind in DTYPES else entry.size
    if entry.size != needed:
        raise ValueError(f"it has {entry.size} bytes; shape {shape} of {entry.dtype} has {needed}")
    return entry


def _shape(fields: Message) -> tuple[int, ...]:
    stated = messages(fields, 2)
    if any(number(shape, 3) for shape in stated):
        raise ValueError("its number of dimensions is unknown")
    shape = tuple(number(size, 1) for part in stated for size in messages(part, 2))
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"it has {len(shape)} dimensions; allowed: {MOST_DIMENSIONS}")
    if any(not 0 <= size < LARGEST_DIMENSION for size in shape):
        raise ValueError(f"shape {shape} is not possible")
    return shape


def _type(kind: int) -> str:
    return _word(DTYPES[kind]) if kind in DTYPES else OTHERS.get(kind, f"number {kind}")


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
