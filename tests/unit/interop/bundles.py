"""TensorFlow's checkpoint format written from its description alone, sound or with a stated flaw.

Nothing here comes from the reader, not even the checksum, so what both agree on is the format and not a
shared mistake. Each piece can be made by itself: tests build damaged files from sound pieces.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.unit.data.refusal import refusal

Array = NDArray[np.generic]
Item = tuple[bytes, bytes]

DATA_TYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "int64": 9,
    "float16": 19,
}
MAGIC = 0xDB4775248B80FB57
NAMES = [f"model/h{layer}/{part}" for layer in range(3) for part in ("ln_1/g", "mlp/c_fc/w", "mlp/c_proj/w")]


def tensors() -> dict[str, Array]:
    """Nine of them, each of another size."""
    draw = np.random.default_rng(0)
    return {name: draw.normal(size=(2, n + 1)).astype(np.float32) for n, name in enumerate(NAMES)}


def refused(call: Callable[[], object], *words: str) -> None:
    """The call raises a ValueError of one line that has all these words."""
    line = refusal(call)
    assert all(word in line for word in words), line


def table_of_bytes() -> list[int]:
    """What eight steps of the shift register make of each byte."""
    table = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
        table.append(register)
    return table


TABLE = table_of_bytes()


def crc32c(data: bytes) -> int:
    """CRC-32C, one byte after another."""
    register = 0xFFFFFFFF
    for byte in data:
        register = register >> 8 ^ TABLE[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    rotated = crc >> 15 | crc << 17 & 0xFFFFFFFF
    return (rotated + 0xA282EAD8) % 2**32


def varint(value: int) -> bytes:
    value %= 2**64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes) -> bytes:
    """A number as a varint, bytes with their length before them."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def header(shards: int, *, endianness: int = 0) -> bytes:
    return field(1, shards) + (field(2, endianness) if endianness else b"") + field(3, field(1, 1))


@dataclass(frozen=True)
class Place:
    """One tensor's line in the index."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int  # masked
    extra: bytes = b""

    def encoded(self) -> bytes:
        shape = b"".join(field(2, field(1, size)) for size in self.shape)
        numbers = b"".join(
            field(number, value) for number, value in ((3, self.shard), (4, self.offset)) if value
        )
        crc = varint(6 << 3 | 5) + struct.pack("<I", self.crc)
        return field(1, self.dtype) + field(2, shape) + numbers + field(5, self.size) + crc + self.extra


def block(items: Iterable[Item], *, restart: int = 16) -> bytes:
    """Entries with the beginnings of their keys left out, save every `restart`th."""
    out, starts, last = bytearray(), [], b""
    for place, (key, value) in enumerate(items):
        shared = 0
        if place % restart == 0:
            starts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    starts = starts or [0]
    return bytes(out) + struct.pack(f"<{len(starts) + 1}I", *starts, len(starts))


def stored(contents: bytes, compression: int = 0) -> bytes:
    """A block with its trailer."""
    whole = contents + bytes([compression])
    return whole + struct.pack("<I", masked(crc32c(whole)))


def table(items: list[Item], *, per_block: int = 4, restart: int = 3, compression: int = 0) -> bytes:
    """A sorted table of these items."""
    out, handles, places = b"", [], []
    for begin in range(0, len(items), per_block):
        part = items[begin : begin + per_block]
        contents = block(part, restart=restart)
        handles.append((part[-1][0], varint(len(out)) + varint(len(contents))))
        out += stored(contents, compression)
    for contents in (block([]), block(handles, restart=1)):  # the meta-index, and the index
        places += [len(out), len(contents)]
        out += stored(contents)
    return out + b"".join(map(varint, places)).ljust(40, b"\0") + struct.pack("<Q", MAGIC)


@dataclass(frozen=True)
class Layout:
    """A checkpoint before it is written: change a place, then write."""

    shards: list[bytes]
    places: dict[str, Place]
    head: bytes

    def items(self) -> list[Item]:
        return [
            (b"", self.head),
            *((name.encode(), self.places[name].encoded()) for name in sorted(self.places)),
        ]

    def with_place(self, name: str, **changes: object) -> "Layout":
        return replace(self, places={**self.places, name: replace(self.places[name], **changes)})

    def write(self, prefix: Path, **options: int) -> None:
        index_of(prefix).write_bytes(table(self.items(), **options))
        for number, data in enumerate(self.shards):
            shard_of(prefix, number, len(self.shards)).write_bytes(data)


def layout(
    tensors: Mapping[str, Array],
    *,
    shards: int = 1,
    big_endian: bool = False,
    checksum: Callable[[bytes], int] = crc32c,
) -> Layout:
    """Tensors dealt to the shards in turn."""
    data, places = [bytearray() for _ in range(shards)], {}
    for turn, (name, array) in enumerate(tensors.items()):
        shard = data[turn % shards]
        raw = array.astype(array.dtype.newbyteorder(">" if big_endian else "<")).tobytes()
        kind = DATA_TYPES[array.dtype.name]
        places[name] = Place(kind, array.shape, turn % shards, len(shard), len(raw), masked(checksum(raw)))
        shard += raw
    return Layout([bytes(shard) for shard in data], places, header(shards, endianness=int(big_endian)))


def index_of(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".index")


def shard_of(prefix: Path, number: int, count: int) -> Path:
    return prefix.with_name(f"{prefix.name}.data-{number:05d}-of-{count:05d}")


def write(prefix: Path, tensors: Mapping[str, Array], *, shards: int = 1, big_endian: bool = False) -> None:
    """A sound checkpoint of these tensors."""
    layout(tensors, shards=shards, big_endian=big_endian).write(prefix)
