"""Read TensorFlow checkpoints of format version 2 without TensorFlow.

`PREFIX.index` is a sorted string table: the empty key holds a header, every other key is a tensor name whose
value gives its place in one of the files `PREFIX.data-XXXXX-of-YYYYY`. Index and file sizes are checked on
opening, before memory is allocated for a tensor; the bytes of a tensor are checked when it is read.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import numpy as np
import torch
from torch import Tensor

from isopix.interop.mmap_alloc import mmap_alloc
from isopix.interop.openai import sstable
from isopix.interop.openai.protobuf import Message, get_int, get_messages, parse_message

VERSION = 1  # format version that this reader supports
MAX_INDEX_BYTES = 2**26  # that of iGPT-L with optimizer state has about 2^18
MAX_TENSORS = 2**16
MAX_SHARDS = 10_000
MAX_DIMENSIONS = 8
MAX_DIMENSION = 2**31
CHUNK = 2**22  # bytes read and checked at a time

# TensorFlow's names of its type numbers; tensors of a type that is not READABLE are listed all the same.
TYPE_NAMES = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string"}
TYPE_NAMES |= {8: "complex64", 9: "int64", 10: "bool", 14: "bfloat16", 17: "uint16", 18: "complex128"}
TYPE_NAMES |= {19: "float16", 22: "uint32", 23: "uint64"}
READABLE = ["float32", "float64", "int32", "uint8", "int16", "int8", "int64", "bfloat16", "float16"]
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in READABLE}


class TensorEntry(NamedTuple):
    """Index entry of one tensor."""

    dtype: str  # such as float32
    shape: tuple[int, ...]
    shard: int
    offset: int  # bytes from the start of the shard
    size: int  # bytes
    crc: int  # masked CRC-32C of the bytes

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True)
class TFCheckpoint:
    """An open checkpoint: its entries by name, and `read`, which returns one tensor."""

    prefix: Path
    shards: int
    big_endian: bool
    entries: Mapping[str, TensorEntry]

    @classmethod
    def open(cls, given: Path) -> "TFCheckpoint":
        """Open a checkpoint by its prefix, its `.index` file, or its folder if that holds no other.

        Raises ValueError, naming the file, if there is none, or if its index or a shard's size is invalid.
        """
        prefix = find_prefix(given)
        index = _index_path(prefix)
        try:
            bundle = cls._of(prefix, sstable.iter_entries(_read_index(index)))
        except ValueError as error:
            raise ValueError(f"checkpoint index {index}: {error}") from None
        placed = sorted(bundle.entries.items(), key=lambda item: item[1][2:5])  # by shard, offset, size
        for shard, inside in itertools.groupby(placed, key=lambda item: item[1].shard):
            bundle._check_shard(shard, inside)
        return bundle

    @classmethod
    def _of(cls, prefix: Path, items: Iterator[tuple[bytes, bytes]]) -> "TFCheckpoint":
        key, value = next(items, (b"", b""))
        if key:
            raise ValueError(f"its first key is {key!r}, not the header")
        shards, big_endian = _header(parse_message(value))
        return cls(prefix, shards, big_endian, _entries(items, shards))

    def shard(self, shard: int) -> Path:
        """Return the path of a shard, built from the prefix and numbers only, never from file contents."""
        return self.prefix.with_name(f"{self.prefix.name}.data-{shard:05d}-of-{self.shards:05d}")

    def read(self, name: str) -> Tensor:
        """Read a tensor from its shard directly into its own memory, little or big endian.

        Raises KeyError for a name that is not in `entries`, and ValueError for an unsupported type or a wrong
        checksum.
        """
        entry = self.entries[name]
        if entry.dtype not in DTYPES:
            allowed = ", ".join(DTYPES)
            raise ValueError(f"tensor {name!r} of {self.prefix} has type {entry.dtype}; supported: {allowed}")
        tensor = mmap_alloc(entry.shape, DTYPES[entry.dtype])
        raw = tensor.view(-1).view(torch.uint8).numpy()
        self._fill(name, entry, raw.data)
        if self.big_endian and tensor.itemsize > 1:
            raw.view(np.dtype(f"u{tensor.itemsize}")).byteswap(inplace=True)
        return tensor

    def _fill(self, name: str, entry: TensorEntry, memory: memoryview) -> None:
        crc, path = 0, self.shard(entry.shard)
        with path.open("rb") as file:
            file.seek(entry.offset)
            for start in range(0, entry.size, CHUNK):
                chunk = memory[start : start + CHUNK]
                if file.readinto(chunk) < len(chunk):
                    raise ValueError(f"checkpoint shard {path} is truncated: it ends inside tensor {name!r}")
                crc = google_crc32c.extend(crc, bytes(chunk))
        if sstable.mask_crc(crc) != entry.crc:
            raise ValueError(f"checkpoint shard {path}: tensor {name!r} is damaged; its checksum differs")

    def _check_shard(self, shard: int, inside: Iterator[tuple[str, TensorEntry]]) -> None:
        """Raise ValueError unless its tensors lie inside the file and do not overlap."""
        path = self.shard(shard)
        if not path.is_file():
            raise ValueError(f"checkpoint shard {path} does not exist; all {self.shards} shards are needed")
        size, end, last = path.stat().st_size, 0, ""
        for name, entry in inside:
            if entry.offset < end:
                raise ValueError(
                    f"checkpoint index {_index_path(self.prefix)}: tensors {last!r} and {name!r} overlap"
                )
            end, last = entry.end, name
            if end > size:
                raise ValueError(
                    f"checkpoint shard {path} has {size} bytes; tensor {name!r} would end at {end}: "
                    f"the shard is truncated, or the index is wrong"
                )


def find_prefix(given: Path) -> Path:
    """Return the prefix of a checkpoint. Raises ValueError if there is none, or more than one."""
    prefix = given.with_suffix("") if given.suffix == ".index" else given
    if prefix.name and _index_path(prefix).is_file():
        return prefix
    if not given.is_dir():
        raise ValueError(
            f"checkpoint index {_index_path(prefix)} does not exist; give the PREFIX of PREFIX.index"
        )
    found = sorted(path for path in given.glob("*.index") if path.is_file())
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:10]) or "none"
        raise ValueError(f"folder {given} holds {len(found)} checkpoints ({names}); give the prefix of one")
    return found[0].with_suffix("")


def _index_path(prefix: Path) -> Path:
    return prefix.parent / f"{prefix.name}.index"


def _read_index(path: Path) -> bytes:
    if path.stat().st_size > MAX_INDEX_BYTES:
        raise ValueError(f"it has {path.stat().st_size} bytes; allowed: {MAX_INDEX_BYTES}")
    return path.read_bytes()


def _header(fields: Message) -> tuple[int, bool]:
    """Return the number of shards, and whether they are big endian."""
    shards, endianness = get_int(fields, 1), get_int(fields, 2)
    if not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"its header states {shards} shards; allowed: 1 to {MAX_SHARDS}")
    if endianness not in (0, 1):
        raise ValueError(f"its header states byte order {endianness}; allowed: 0 (little), 1 (big)")
    for version in get_messages(fields, 3):
        needed = get_int(version, 2)
        if needed > VERSION or get_int(version, 1) < 0 or 3 in version:  # 3: excluded reader versions
            raise ValueError(f"it requires a reader of version {needed}; this reader has version {VERSION}")
    return shards, endianness == 1


def _entries(items: Iterator[tuple[bytes, bytes]], shards: int) -> dict[str, TensorEntry]:
    entries = {}
    for key, value in itertools.islice(items, MAX_TENSORS):
        name = _name(key)
        try:
            entries[name] = _entry(parse_message(value), shards)
        except ValueError as error:
            raise ValueError(f"tensor {name!r}: {error}") from None
    if next(items, None):
        raise ValueError(f"it lists more than {MAX_TENSORS} tensors")
    return entries


def _name(key: bytes) -> str:
    if key[0] == 0:  # TensorFlow's prefix of slices of a partitioned variable
        raise ValueError("it holds slices of partitioned variables, which are not supported")
    name = key.decode(errors="replace")
    if not name.isprintable() or "\N{REPLACEMENT CHARACTER}" in name:
        raise ValueError(f"tensor name {key!r} is not printable text")
    if {"", ".", ".."} & set(name.replace("\\", "/").split("/")):
        raise ValueError(f"tensor name {name!r} is a path, not a variable name")
    return name


def _entry(fields: Message, shards: int) -> TensorEntry:
    if 7 in fields:
        raise ValueError("it is stored in slices (a partitioned variable), which is not supported")
    number, shape = get_int(fields, 1), _shape(fields)
    kind = TYPE_NAMES.get(number, f"number {number}")
    entry = TensorEntry(kind, shape, *(get_int(fields, field) for field in (3, 4, 5, 6)))
    if not 0 <= entry.shard < shards:
        raise ValueError(f"it is in shard {entry.shard} of {shards}")
    if entry.offset < 0 or entry.size < 0:
        raise ValueError(f"it starts at byte {entry.offset} and has {entry.size} bytes")
    needed = math.prod(shape) * DTYPES[kind].itemsize if kind in DTYPES else entry.size
    if entry.size != needed:
        raise ValueError(f"it has {entry.size} bytes; shape {shape} of {entry.dtype} needs {needed}")
    return entry


def _shape(fields: Message) -> tuple[int, ...]:
    stated = get_messages(fields, 2)
    if any(get_int(shape, 3) for shape in stated):
        raise ValueError("it has an unknown number of dimensions")
    shape = tuple(get_int(size, 1) for part in stated for size in get_messages(part, 2))
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"it has {len(shape)} dimensions; allowed: at most {MAX_DIMENSIONS}")
    if any(not 0 <= size < MAX_DIMENSION for size in shape):
        raise ValueError(f"shape {shape} is invalid")
    return shape
