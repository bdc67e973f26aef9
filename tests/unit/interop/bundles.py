"""OpenAI's variables, drawn at random, and TensorFlow's checkpoint format, written from its description."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Item = tuple[bytes, bytes]

DATA_TYPES = {"float32": 1, "int32": 3}
# A palette of three levels of each channel.
LEVELS = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3), -1).reshape(-1, 3).astype(np.float32)
DTYPE, SHAPE, SHARD, OFFSET, SIZE, CRC = range(1, 7)  # fields of a tensor's entry
MAGIC = 0xDB4775248B80FB57


def variables(
    *,
    depth: int = 2,
    width: int = 12,
    heads: int = 3,
    colors: int = 7,
    positions: int = 16,
    start: bool = True,
) -> dict[str, NDArray[np.float32]]:
    """Draw a whole Image GPT, autoregressive if it has a start vector."""
    shapes: dict[str, tuple[int, ...]] = {"wpe": (positions, width), "wte": (colors, width)}
    shapes |= {"wtet": (colors, width), "ln_f/g": (width,)} | ({"sos": (width,)} if start else {})
    for layer in range(depth):
        here = f"h{layer}"
        shapes |= {f"{here}/ln_1/g": (width,), f"{here}/ln_2/g": (width,)}
        shapes |= {f"{here}/attn/{part}_proj": (heads, width // heads, width) for part in "qkvc"}
        shapes |= {f"{here}/mlp/c_fc/w": (width, 4 * width), f"{here}/mlp/c_proj/w": (4 * width, width)}
    random = np.random.default_rng(0)
    return {
        f"model/{name}": random.normal(size=shape, scale=0.3).astype(np.float32)
        for name, shape in shapes.items()
    }


def write(
    prefix: Path,
    tensors: Mapping[str, Array],
    *,
    shards: int = 1,
    big_endian: bool = False,
    changes: Mapping[str, Mapping[int, Any]] | None = None,
) -> None:
    """Write a checkpoint of tensors that are dealt to the shards in turn, with changed fields of entries."""
    data = [bytearray() for _ in range(shards)]
    head = field(1, shards) + (field(2, 1) if big_endian else b"") + field(3, field(1, 1))
    items: dict[bytes, bytes] = {b"": head}
    for turn, (name, array) in enumerate(tensors.items()):
        shard = data[turn % shards]
        raw = array.tobytes()
        entry: dict[int, Any] = {
            DTYPE: DATA_TYPES[array.dtype.name],
            SHAPE: b"".join(field(2, field(1, size)) for size in array.shape),
            SHARD: turn % shards,
            OFFSET: len(shard),
            SIZE: len(raw),
            CRC: struct.pack("<I", masked(raw)),
        }
        entry |= (changes or {}).get(name, {})
        items[name.encode()] = b"".join(
            field(number, value, fixed=number == CRC) for number, value in entry.items()
        )
        shard += raw
    index_of(prefix).write_bytes(table(sorted(items.items())))
    for number, each in enumerate(data):
        shard_of(prefix, number, shards).write_bytes(each)


def index_of(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".index")


def shard_of(prefix: Path, number: int, count: int) -> Path:
    return prefix.with_name(f"{prefix.name}.data-{number:05d}-of-{count:05d}")


def masked(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes, *, fixed: bool = False) -> bytes:
    """Write a number as a varint, four `fixed` bytes, or bytes with their length before them."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | (5 if fixed else 2)) + (b"" if fixed else varint(len(value))) + value


def block(items: Iterable[Item]) -> bytes:
    """Write entries with whole keys; those of TensorFlow leave out what a key shares with the one before."""
    entries = (b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in items)
    return b"".join(entries) + struct.pack("<2I", 0, 1)


def table(items: Sequence[Item]) -> bytes:
    """Write a sorted table: blocks with their trailers, an empty meta-index, the index, and the footer."""

    def stored(contents: bytes) -> bytes:
        whole = contents + b"\0"  # not compressed
        return whole + struct.pack("<I", masked(whole))

    out, handles, places = b"", [], []
    for begin in range(0, len(items), 4):
        part = items[begin : begin + 4]
        contents = block(part)
        handles.append((part[-1][0], varint(len(out)) + varint(len(contents))))
        out += stored(contents)
    for contents in (block([]), block(handles)):
        places += [len(out), len(contents)]
        out += stored(contents)
    return out + b"".join(map(varint, places)).ljust(40, b"\0") + struct.pack("<Q", MAGIC)
