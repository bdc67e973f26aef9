"""Whether a batch of an Arrow stream is compressed, by its metadata, before anything is unpacked.

The metadata is a FlatBuffer (Message.fbs): tables of which field i is at the 16-bit offset that the table of
offsets has at 4 + 2 i; 0 for a field that is not there.
"""

import struct

HEADER_TYPE, HEADER, RECORD_BATCH = 1, 2, 3  # fields of Message, and the type of a batch
COMPRESSION = 3  # a field of RecordBatch


def is_compressed(metadata: bytes) -> bool:
    """Return whether the body of a message is compressed. Raises ValueError if it is not that of a batch."""
    try:
        message = struct.unpack_from("<I", metadata)[0]
        kind, header = _field(metadata, message, HEADER_TYPE), _field(metadata, message, HEADER)
        if not kind or not header or metadata[kind] != RECORD_BATCH:
            raise ValueError("it has parts that are not batches of rows")
        batch = header + struct.unpack_from("<I", metadata, header)[0]
        return _field(metadata, batch, COMPRESSION) != 0
    except (struct.error, IndexError):
        raise ValueError("the metadata of a batch is damaged") from None


def _field(metadata: bytes, table: int, number: int) -> int:
    """Return the place of a field of a table; 0 if it is not there."""
    offsets = table - struct.unpack_from("<i", metadata, table)[0]
    if offsets < 0:
        raise struct.error
    size = struct.unpack_from("<H", metadata, offsets)[0]
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", metadata, offsets + place)[0] if place < size else 0
    return table + offset if offset else 0
