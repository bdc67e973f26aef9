"""Bundles whose writer means harm: sound checksums around what cannot be."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isopix.interop.openai.tf_checkpoint import TFCheckpoint
from tests.unit.interop import bundles
from tests.unit.interop.bundles import NAMES, Layout, refused, tensors


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "model.ckpt-7"


X, Y = NAMES[:2]
SLICES = bundles.field(7, bundles.field(1, b""))
LIES: dict[str, tuple[Callable[[Layout], Layout], tuple[str, ...]]] = {
    "size beside the shape": (lambda it: it.with_place(X, size=4), (X, "4 bytes", "needs 8")),
    "shape beside the size": (lambda it: it.with_place(X, shape=(2, 2)), (X, "needs 16")),
    "dimension below zero": (lambda it: it.with_place(X, shape=(-2, -1)), (X, "(-2, -1) is invalid")),
    "dimension too large": (lambda it: it.with_place(X, shape=(2**40, 0), size=0), (X, "is invalid")),
    "product too large": (lambda it: it.with_place(X, shape=(2**30,) * 4), (X, "8 bytes")),
    "too many dimensions": (lambda it: it.with_place(X, shape=(1,) * 9 + (2,)), (X, "10 dimensions")),
    "unknown rank": (
        lambda it: it.with_place(X, extra=bundles.field(2, bundles.field(3, 1))),
        (X, "unknown"),
    ),
    "end behind the shard": (lambda it: it.with_place(X, offset=10**6), (X, "would end at 1000008")),
    "bigger than the shard": (
        lambda it: it.with_place(X, shape=(2**30, 2**4), size=2**36),
        ("would end at", "truncated"),
    ),
    "offset below zero": (lambda it: it.with_place(X, offset=-8), (X, "starts at byte -8")),
    "size below zero": (lambda it: it.with_place(X, size=-8), (X, "-8 bytes")),
    "overlap": (lambda it: it.with_place(X, offset=2), (X, Y, "overlap")),
    "shard that is not": (lambda it: it.with_place(X, shard=1), (X, "shard 1 of 1")),
    "shard below zero": (lambda it: it.with_place(X, shard=-1), (X, "shard -1")),
    "slices": (lambda it: it.with_place(X, extra=SLICES), (X, "slices", "partitioned")),
    "size stated twice": (lambda it: it.with_place(X, extra=bundles.field(5, 8)), (X, "field 5")),
    "size as bytes": (lambda it: it.with_place(X, extra=bundles.field(4, b"8")), (X, "field 4")),
    "shape as a number": (lambda it: it.with_place(X, extra=bundles.field(2, 5)), (X, "field 2")),
    "group": (lambda it: it.with_place(X, extra=b"\x0b"), (X, "wire type 3")),
    "varint without end": (
        lambda it: it.with_place(X, extra=b"\x40" + b"\x80" * 30),
        (X, "truncated or oversized varint"),
    ),
    "varint of 70 bits": (
        lambda it: it.with_place(X, extra=b"\x40" + b"\xff" * 9 + b"\x7f"),
        (X, "oversized varint"),
    ),
    "bytes cut short": (lambda it: it.with_place(X, extra=b"\x42\x20abc"), (X, "32 bytes")),
    "no shards": (lambda it: Layout(it.shards, it.places, bundles.header(0)), ("0 shards",)),
    "absurd shards": (lambda it: Layout(it.shards, it.places, bundles.header(2**31)), ("2147483648 shards",)),
    "shards below zero": (lambda it: Layout(it.shards, it.places, bundles.header(-1)), ("-1 shards",)),
    "byte order": (
        lambda it: Layout(it.shards, it.places, bundles.header(1, endianness=2)),
        ("byte order 2",),
    ),
    "version": (
        lambda it: Layout(it.shards, it.places, bundles.header(1, min_consumer=2)),
        ("version 2",),
    ),
    "shuts out this reader": (
        lambda it: Layout(it.shards, it.places, it.head + bundles.field(3, bundles.field(3, 1))),
        ("a reader of version",),
    ),
    "name of no text": (
        lambda it: Layout(it.shards, {"a\nb": it.places[X]}, it.head),
        ("a\\nb", "not printable text"),
    ),
} | {
    f"name like the path {name}": (
        lambda it, name=name: Layout(it.shards, it.places | {name: it.places[X]}, it.head),
        (repr(name), "is a path, not a variable name"),
    )
    for name in ("/etc/passwd", "../clf/w", "model/../clf/w", "model//clf", "model/clf/", "..\\clf", ".")
}


@pytest.mark.parametrize(("lie", "words"), LIES.values(), ids=list(LIES))
def test_an_inconsistent_index_is_refused(
    prefix: Path, lie: Callable[[Layout], Layout], words: tuple[str, ...]
) -> None:
    lie(bundles.layout(tensors())).write(prefix)
    refused(lambda: TFCheckpoint.open(prefix), str(prefix), *words)


TABLES: dict[str, tuple[Callable[[Layout], bytes], tuple[str, ...]]] = {
    "snappy": (lambda it: bundles.table(it.items(), compression=1)[0], ("compressed (snappy)",)),
    "unknown compression": (lambda it: bundles.table(it.items(), compression=9)[0], ("unknown type 9",)),
    "no header": (lambda it: bundles.table(it.items()[1:])[0], ("not the header",)),
    "nothing at all": (lambda it: bundles.table([])[0], ("0 shards",)),
    "unsorted": (lambda it: bundles.table([it.items()[0], *it.items()[:0:-1]])[0], ("out of order",)),
    "duplicate": (lambda it: bundles.table([*it.items(), it.items()[-1]])[0], (NAMES[-1], "repeated")),
    "slice of a partitioned variable": (
        lambda it: bundles.table([it.items()[0], (b"\0\1", b""), *it.items()[1:]])[0],
        ("slices", "partitioned"),
    ),
    "name of broken text": (
        lambda it: bundles.table([it.items()[0], (b"\xff\xfe", b"")])[0],
        ("not printable text",),
    ),
    "endless name": (lambda it: bundles.table([it.items()[0], (b"x" * 2000, b"")])[0], ("2000 bytes",)),
    "endless value": (lambda it: bundles.table([it.items()[0], (b"x", b"x" * 2**17)])[0], ("131072",)),
    "something before the blocks": (lambda it: b"?" + bundles.table(it.items())[0], ("checksum",)),
    "something behind it": (lambda it: bundles.table(it.items())[0] + b"?", ("magic",)),
}


@pytest.mark.parametrize(("broken", "words"), TABLES.values(), ids=list(TABLES))
def test_an_invalid_table_is_refused(
    prefix: Path, broken: Callable[[Layout], bytes], words: tuple[str, ...]
) -> None:
    written = bundles.layout(tensors())
    written.write(prefix)
    bundles.index_of(prefix).write_bytes(broken(written))
    refused(lambda: TFCheckpoint.open(prefix), f"{prefix}.index: ", *words)


ONE_RESTART = bytes(4) + b"\1\0\0\0"
BLOCKS = {
    "nothing to share": (b"\5\1\0x" + ONE_RESTART, "shares 5 bytes with a previous key of 0 bytes"),
    "key cut short": (b"\0\x10\0x" + ONE_RESTART, "expected 16 bytes"),
    "value cut short": (b"\0\1\x10x" + ONE_RESTART, "expected 16 bytes"),
    "lengths cut short": (b"\0\x81" + ONE_RESTART, "truncated or oversized varint"),
    "restarts beyond the block": (bytes(4) + b"\xff\xff\xff\xff", "too short for its list of restarts"),
    "no restarts": (b"", "too short for its list of restarts"),
}


@pytest.mark.parametrize(("contents", "words"), BLOCKS.values(), ids=list(BLOCKS))
def test_an_invalid_block_is_refused(prefix: Path, contents: bytes, words: str) -> None:
    head = bundles.block([(b"", bundles.header(1))])
    bundles.index_of(prefix).write_bytes(bundles.assembled([(b"", head), (b"x", contents)])[0])
    refused(lambda: TFCheckpoint.open(prefix), f"{prefix}.index: ", words)


@pytest.mark.parametrize("gap", ["data", "meta", "index", "footer"])
def test_bytes_between_the_blocks_are_refused(prefix: Path, gap: str) -> None:
    """Every byte of an index is accounted for, so nothing is read twice or hides."""
    written = bundles.layout(tensors())
    written.write(prefix)
    bundles.index_of(prefix).write_bytes(bundles.table(written.items(), gap=gap)[0])
    refused(lambda: TFCheckpoint.open(prefix), f"{prefix}.index: ", "starts at")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_with_valid_checksums_is_refused_or_fits_into_the_shard(
    tmp_path: Path, data: st.DataObject
) -> None:
    """A hostile writer's checksums are right: entries are changed first and stored then."""
    sound, prefix = bundles.layout(tensors()), tmp_path / "it"
    sound.write(prefix)
    items = [[bytearray(part) for part in item] for item in sound.items()]
    for _ in range(data.draw(st.integers(1, 4))):
        part = data.draw(st.sampled_from([part for item in items for part in item if part]))
        part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    broken, _ = bundles.table([(bytes(key), bytes(value)) for key, value in items])
    bundles.index_of(prefix).write_bytes(broken)
    try:
        bundle = TFCheckpoint.open(prefix)
    except ValueError:
        return
    assert sum(entry.size for entry in bundle.entries.values()) <= len(sound.shards[0])
    for name, entry in bundle.entries.items():
        with contextlib.suppress(ValueError):
            assert bundle.read(name).nbytes == entry.size
