"""Tar files and Arrow streams, valid and hostile."""

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tests.unit.data.shards import encoded, entry, tar_bytes


def _members() -> Iterator[tuple[str, bytes]]:
    for i in range(12):
        yield f"{'long-' * 30 * (i % 2)}{i}.png", encoded(0)
        yield f"{'long-' * 30 * (i % 2)}{i}.cls", b"0"


def valid_tar() -> bytes:
    """Return the content of a tar file of images and labels, some of them with long names."""
    return tar_bytes(_members(), tarfile.PAX_FORMAT)


def arrow(images: Any = None, labels: Any = None) -> bytes:
    """Return the content of an Arrow stream, as the library `datasets` writes it."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": encoded(0), "path": None}] * 12 if images is None else images
    image = rows if isinstance(rows, pa.Array) else pa.array(rows, kind)
    table = pa.table({"img": image, "label": pa.array([0] * len(image) if labels is None else labels)})
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as stream:
        stream.write_table(table, 5)
    return buffer.getvalue()


def shard_payloads() -> Iterator[bytes]:
    """Yield hostile tar files and Arrow streams."""
    image = encoded(0)
    for number in (b"7" * 11, b"\x80" + b"\x7f" * 11, b"\xff" * 12, b"-0000000001"):  # sizes
        header = bytearray(tar_bytes([("a.png", image)]))
        header[124:136] = number.ljust(12, b"\0")
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header[:512])
        yield bytes(header)
    for kind in (b"L", b"x", b"K", b"g"):
        name = entry("././@LongLink", kind)
        yield tar_bytes([*([name] * 20_000), ("a.png", image)])
        yield tar_bytes([("a.png", image)]).replace(b"0" + bytes(100), kind + bytes(100), 1)
    yield tar_bytes((f"{i}.png", b"") for i in range(20_000))
    yield tar_bytes([("a.png", image), ("a.cls", b"9" * 10**6)])
    yield tar_bytes([("a.png", image), ("a.json", b'{"label": ' + b"[" * 10**5)])
    yield arrow(images=[{"bytes": None, "path": "/dev/zero"}] * 12)
    yield arrow(images=[{"bytes": None, "path": "../" * 10**4}] * 12)
    yield arrow(images=[{"bytes": None, "path": "a\0b"}] * 12)
    yield arrow(labels=[None, *range(11)])
    yield arrow(labels=pa.array([2**64 - 1] * 12, pa.uint64()))
    yield arrow(images=pa.array([{"bytes": i} for i in range(12)]))
