"""The regular files in a tar archive: names, places and sizes, from its headers alone.

POSIX ustar and pax, and GNU tar's long names and large sizes, as `tarfile` reads them; nothing is unpacked.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

BLOCK = 512
END = bytes(BLOCK)
REGULAR = (b"0", b"\0", b"7")
LONG_NAME, PAX, SPARSE = b"L", b"x", b"S"
COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
MAX_NAME = 2**16  # bytes of a long name, and of a pax header


class TarMember(NamedTuple):
    """A regular file of an archive: `size` bytes from `start` on."""

    name: str
    start: int
    size: int


@dataclass
class _Extension:
    """What a pax header or a long name says of the next file."""

    name: bytes | None = None
    size: int | None = None


def tar_members(descriptor: int) -> Iterator[TarMember]:
    """Yield the regular files of an archive, which is open for reading; links, folders and devices are left
    out. Raises ValueError for anything else, for sparse files, and if the archive is cut off.
    """
    length, place, extension = os.fstat(descriptor).st_size, 0, _Extension()
    while place < length:
        header = os.pread(descriptor, BLOCK, place)
        if header == END:
            return
        size = _size(header, place)
        kind, start = header[156:157], place + BLOCK
        if kind in REGULAR and extension.size is not None:
            size = extension.size
        if start + size > length:
            raise ValueError(
                f"it is cut off: a file of {size:,} bytes begins at byte {start:,} of {length:,}"
            )
        place = start + -(-size // BLOCK) * BLOCK
        if kind in (LONG_NAME, PAX):
            _extend(extension, kind, _content(descriptor, start, size))
            continue
        if kind == SPARSE:
            raise ValueError(f"file '{_name(header, extension)}' is sparse; pack it without --sparse")
        if kind in REGULAR:
            yield TarMember(_name(header, extension), start, size)
        extension = _Extension()
    raise ValueError("it is cut off: it has no end, a block of zeros")


def _size(header: bytes, place: int) -> int:
    """Return the size in a header. Raises ValueError if it is not one."""
    if header.startswith(COMPRESSED):
        raise ValueError("it is compressed, so that no image can be read by itself; unpack it (gunzip)")
    given, size = _number(header[148:156]), _number(header[124:136])
    without = header[:148] + b" " * 8 + header[156:]
    expected = sum(without.translate(None, b"\0"))  # most bytes are zeros, which Python would add one by one
    if len(header) < BLOCK or given != expected or size is None:
        raise ValueError(f"there is no header of a file at byte {place:,}")
    return size


def _number(field: bytes) -> int | None:
    """Return a number in octal digits, or in bytes after one of 128 (GNU); None for anything else."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip() or b"0"
    return int(digits, 8) if digits.isdigit() and not digits.strip(b"01234567") else None


def _content(descriptor: int, start: int, size: int) -> bytes:
    if size > MAX_NAME:
        raise ValueError(f"the name at byte {start:,} has {size:,} bytes, above the limit of {MAX_NAME:,}")
    return os.pread(descriptor, size, start)


def _extend(extension: _Extension, kind: bytes, content: bytes) -> None:
    if kind == LONG_NAME:
        extension.name = content.split(b"\0", 1)[0]
        return
    while content:  # of the form "27 path=images/0001.png\n"; the number is the length of all
        digits, _, _ = content.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 8 else 0
        key, equals, value = content[len(digits) + 1 : length - 1].partition(b"=")
        if not equals or content[length - 1 : length] != b"\n":
            raise ValueError("it has a pax header that is damaged")
        if key.startswith(b"GNU.sparse"):
            raise ValueError("it has sparse files; pack it without --sparse")
        if key == b"path":
            extension.name = value
        if key == b"size":
            if not value.isdigit() or len(value) > 18:
                raise ValueError("it has a pax header that is damaged")
            extension.size = int(value)
        content = content[length:]


def _name(header: bytes, extension: _Extension) -> str:
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0" and header[345]:
        name = header[345:500].split(b"\0", 1)[0] + b"/" + name
    return (name if extension.name is None else extension.name).decode("utf-8", "surrogateescape")
