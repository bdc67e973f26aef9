"""Sorted table of keys and values in one file, as LevelDB lays it out and TensorFlow's checkpoint index uses.

A file is blocks, then a footer of 48 bytes: data blocks, a meta-index block, an index block that names the
data blocks. A block's entries share the beginnings of their keys; after it come its compression and a masked
CRC-32C of both. Here every byte must be accounted for: blocks follow each other without a gap.
"""

from collections.abc import Iterator
from typing import NamedTuple

from isopix.interop.openai.crc32c import extend, masked
from isopix.interop.openai.protobuf import taken, varint

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
TRAILER = 5
LONGEST_KEY, LONGEST_VALUE = 2**10, 2**16  # bytes; what a table unpacks to stays in proportion to its size
COMPRESSIONS = {1: "snappy", 2: "zlib", 4: "zstd"}


class Handle(NamedTuple):
    """Where a block's entries lie in the file; its trailer comes after them."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size + TRAILER


def items(file: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values, the keys ascending. Raises ValueError at the first thing that is not as it must be."""
    meta, index = _footer(file)
    for _ in _entries(_block(file, meta)):
        raise ValueError("its meta-index is not empty, which no checkpoint's is")
    end, last = 0, None
    for _, place in _entries(_block(file, index)):
        handle, _ = _handle(place, 0)
        _follows(handle, end)
        end = handle.end
        for key, value in _entries(_block(file, handle)):
            if last is not None and key <= last:
                word = "twice" if key == last else "after a greater one"
                raise ValueError(f"key {key!r} comes {word}; the keys of a table ascend")
            last = key
            yield key, value
    _follows(meta, end)
    _follows(index, meta.end)
    if index.end != len(file) - FOOTER:
        raise ValueError(f"its blocks end at byte {index.end} and its footer begins at {len(file) - FOOTER}")


def _follows(handle: Handle, end: int) -> None:
    if handle.offset != end:
        raise ValueError(f"a block begins at byte {handle.offset}, and the one before it ends at {end}")


def _footer(file: bytes) -> tuple[Handle, Handle]:
    """Handles of the meta-index and of the index."""
    if len(file) < FOOTER or int.from_bytes(file[-8:], "little") != MAGIC:
        raise ValueError("it does not end in a table's magic number; it is truncated, or no such file")
    footer = file[-FOOTER:-8]
    meta, at = _handle(footer, 0)
    index, at = _handle(footer, at)
    if any(footer[at:]):
        raise ValueError("its footer is damaged")
    return meta, index


def _handle(data: bytes, at: int) -> tuple[Handle, int]:
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return Handle(offset, size), at


def _block(file: bytes, handle: Handle) -> bytes:
    """The entries of a block, once its checksum is found right; without the list of restarts."""
    if handle.end > len(file) - FOOTER:
        raise ValueError(f"a block of {handle.size} bytes at byte {handle.offset} reaches past its end")
    stored = file[handle.offset : handle.end]
    contents, compression = stored[:-TRAILER], stored[-TRAILER]
    if masked(extend(0, stored[:-4])) != int.from_bytes(stored[-4:], "little"):
        raise ValueError(f"the block at byte {handle.offset} is damaged; its checksum differs")
    if compression:
        name = COMPRESSIONS.get(compression, f"of unknown kind {compression}")
        raise ValueError(
            f"the block at byte {handle.offset} is compressed ({name}); only plain ones are read"
        )
    restarts = 4 * int.from_bytes(contents[-4:], "little") + 4
    if len(contents) < restarts:
        raise ValueError(f"the block at byte {handle.offset} has no room for its list of restarts")
    return contents[:-restarts]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each key is so many bytes of the one before it, and its own rest."""
    key, at = b"", 0
    while at < len(block):
        shared, at = varint(block, at)
        own, at = varint(block, at)
        size, at = varint(block, at)
        if shared > len(key):
            raise ValueError(f"a key shares {shared} bytes with one of {len(key)}")
        if shared + own > LONGEST_KEY or size > LONGEST_VALUE:
            raise ValueError(
                f"a key of {shared + own} bytes has a value of {size}; "
                f"allowed: {LONGEST_KEY} and {LONGEST_VALUE}"
            )
        key, at = key[:shared] + taken(block, at, own), at + own
        value, at = taken(block, at, size), at + size
        yield key, value
