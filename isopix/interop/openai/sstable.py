"""Read sorted string tables (LevelDB), the format of TensorFlow's checkpoint index.

A file consists of data blocks, a meta-index block, an index block that lists the data blocks, and a footer of
48 bytes. Entries of a block share key prefixes; the block is followed by its compression type and a masked
CRC-32C of both. Every byte must belong to a block: blocks follow each other without gaps.
"""

from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

from isopix.interop.openai.protobuf import read_bytes, read_varint

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
TRAILER = 5
MAX_KEY_BYTES, MAX_VALUE_BYTES = 2**10, 2**16  # limits, so that a small file cannot unpack to a large table
COMPRESSIONS = {1: "snappy", 2: "zlib", 4: "zstd"}


class BlockHandle(NamedTuple):
    """Position of a block in the file, without the trailer that follows it."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size + TRAILER


def mask_crc(crc: int) -> int:
    """Return the masked form in which TensorFlow stores a CRC-32C."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def iter_entries(file: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) in ascending order of keys. Raises ValueError for an invalid file."""
    meta, index = _footer(file)
    for _ in _iter_block(_block(file, meta)):
        raise ValueError("its meta-index is not empty")
    end, last = 0, None
    for _, place in _iter_block(_block(file, index)):
        handle, _ = _handle(place, 0)
        _check_adjacent(handle, end)
        end = handle.end
        for key, value in _iter_block(_block(file, handle)):
            if last is not None and key <= last:
                reason = "repeated" if key == last else "out of order"
                raise ValueError(f"key {key!r} is {reason}; keys must ascend")
            last = key
            yield key, value
    _check_adjacent(meta, end)
    _check_adjacent(index, meta.end)
    if index.end != len(file) - FOOTER:
        raise ValueError(
            f"its blocks end at byte {index.end}, but its footer starts at byte {len(file) - FOOTER}"
        )


def _check_adjacent(handle: BlockHandle, end: int) -> None:
    if handle.offset != end:
        raise ValueError(f"a block starts at byte {handle.offset}, but the previous one ends at byte {end}")


def _footer(file: bytes) -> tuple[BlockHandle, BlockHandle]:
    """Return the handles of the meta-index and of the index."""
    if len(file) < FOOTER or int.from_bytes(file[-8:], "little") != MAGIC:
        raise ValueError(
            "it does not end with the magic number of a table; it is truncated or another kind of file"
        )
    footer = file[-FOOTER:-8]
    meta, at = _handle(footer, 0)
    index, at = _handle(footer, at)
    if any(footer[at:]):
        raise ValueError("its footer is damaged")
    return meta, index


def _handle(data: bytes, at: int) -> tuple[BlockHandle, int]:
    offset, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return BlockHandle(offset, size), at


def _block(file: bytes, handle: BlockHandle) -> bytes:
    """Return the entries of a block without the list of restarts, after checking its checksum."""
    if handle.end > len(file) - FOOTER:
        raise ValueError(f"a block of {handle.size} bytes at byte {handle.offset} exceeds the file")
    stored = file[handle.offset : handle.end]
    contents, compression = stored[:-TRAILER], stored[-TRAILER]
    if mask_crc(google_crc32c.value(stored[:-4])) != int.from_bytes(stored[-4:], "little"):
        raise ValueError(f"the block at byte {handle.offset} is damaged; its checksum differs")
    if compression:
        name = COMPRESSIONS.get(compression, f"unknown type {compression}")
        raise ValueError(
            f"the block at byte {handle.offset} is compressed ({name}); compression is not supported"
        )
    restarts = 4 * int.from_bytes(contents[-4:], "little") + 4
    if len(contents) < restarts:
        raise ValueError(f"the block at byte {handle.offset} is too short for its list of restarts")
    return contents[:-restarts]


def _iter_block(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries; each key is a prefix of the previous key and its own suffix."""
    key, at = b"", 0
    while at < len(block):
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if shared > len(key):
            raise ValueError(f"a key shares {shared} bytes with a previous key of {len(key)} bytes")
        if shared + own > MAX_KEY_BYTES or size > MAX_VALUE_BYTES:
            raise ValueError(
                f"a key of {shared + own} bytes has a value of {size}; "
                f"allowed: {MAX_KEY_BYTES} and {MAX_VALUE_BYTES}"
            )
        key, at = key[:shared] + read_bytes(block, at, own), at + own
        value, at = read_bytes(block, at, size), at + size
        yield key, value
