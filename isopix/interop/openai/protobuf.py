"""Parse protocol buffers, as far as checkpoints need them: integers and bytes by field number."""

from collections.abc import Mapping

Message = Mapping[int, list[int | bytes]]

MAX_VARINT_BYTES = 10  # of 64 bits
FIXED = {1: 8, 5: 4}  # bytes of the wire types of fixed size


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at an offset (7 bits per byte, the lowest first) and the offset after it.

    Raises ValueError if it is truncated or has more than 64 bits.
    """
    value = 0
    for count, byte in enumerate(data[at : at + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if value >> 64:
                break
            return value, at + count + 1
    raise ValueError("truncated or oversized varint")


def read_bytes(data: bytes, at: int, size: int) -> bytes:
    """Return `size` bytes from an offset. Raises ValueError if there are fewer."""
    if size > len(data) - at:
        raise ValueError(f"expected {size} bytes, {len(data) - at} are left")
    return data[at : at + size]


def parse_message(data: bytes) -> Message:
    """Return the values of every field, in order. Raises ValueError for an invalid message."""
    fields: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        value: int | bytes
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind in FIXED:
            value = int.from_bytes(read_bytes(data, at, FIXED[kind]), "little")
            at += FIXED[kind]
        elif kind == 2:
            size, at = read_varint(data, at)
            value = read_bytes(data, at, size)
            at += size
        else:
            raise ValueError(f"unknown wire type {kind}")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def get_int(fields: Message, field: int) -> int:
    """Return a field as a signed 64-bit integer; 0, the format's default, if absent."""
    values = fields.get(field, [0])
    value = values[0]
    if len(values) > 1 or not isinstance(value, int):
        raise ValueError(f"field {field} is not a single integer")
    return value - (1 << 64) if value >> 63 else value


def get_messages(fields: Message, field: int) -> list[Message]:
    """Return every message of a repeated field."""
    values = fields.get(field, [])
    inner = [parse_message(value) for value in values if isinstance(value, bytes)]
    if len(inner) < len(values):
        raise ValueError(f"field {field} is not a message")
    return inner
