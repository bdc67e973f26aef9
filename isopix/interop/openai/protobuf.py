"""Protocol buffers as far as checkpoints need them: a message is numbers and bytes by field number."""

from collections.abc import Mapping

Message = Mapping[int, list[int | bytes]]

LONGEST = 10  # bytes of a varint that holds 64 bits
FIXED = {1: 8, 5: 4}  # wire types of a stated size, in bytes


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, seven bits a byte and the lowest first, and where it ends.

    Raises ValueError if it does not end, or has more than 64 bits.
    """
    value = 0
    for count, byte in enumerate(data[at : at + LONGEST]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if value >> 64:
                break
            return value, at + count + 1
    raise ValueError("a number does not end")


def taken(data: bytes, at: int, size: int) -> bytes:
    """So many bytes from there; raises ValueError if there are fewer."""
    if size > len(data) - at:
        raise ValueError(f"{size} bytes are announced where {len(data) - at} are left")
    return data[at : at + size]


def message(data: bytes) -> Message:
    """Every field's values, in their order. Raises ValueError for what is no message."""
    fields: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        value: int | bytes
        if kind == 0:
            value, at = varint(data, at)
        elif kind in FIXED:
            value = int.from_bytes(taken(data, at, FIXED[kind]), "little")
            at += FIXED[kind]
        elif kind == 2:
            size, at = varint(data, at)
            value = taken(data, at, size)
            at += size
        else:
            raise ValueError(f"a field of unknown wire type {kind}")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def number(fields: Message, field: int) -> int:
    """The field as a signed number of 64 bits; 0, the format's default, where it is absent."""
    values = fields.get(field, [0])
    value = values[0]
    if len(values) > 1 or not isinstance(value, int):
        raise ValueError(f"field {field} is not one number")
    return value - (1 << 64) if value >> 63 else value


def messages(fields: Message, field: int) -> list[Message]:
    """Every message of a repeated field."""
    values = fields.get(field, [])
    inner = [message(value) for value in values if isinstance(value, bytes)]
    if len(inner) < len(values):
        raise ValueError(f"field {field} is not a message")
    return inner
