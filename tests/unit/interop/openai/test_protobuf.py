"""Numbers and messages as protocol buffers write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isopix.interop.openai.protobuf import get_int, get_messages, parse_message, read_varint
from tests.unit.data.refusal import refusal
from tests.unit.interop import bundles


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_a_varint_and_its_end_are_read(value: int, after: bytes) -> None:
    written = bundles.varint(value)
    assert read_varint(b"?" + written + after, 1) == (value, 1 + len(written))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 10, b"\xff" * 9 + b"\x02"])
def test_a_truncated_or_oversized_varint_is_refused(data: bytes) -> None:
    assert refusal(read_varint, data, 0) == "truncated or oversized varint"


def test_an_integer_is_signed_and_0_if_absent() -> None:
    fields = parse_message(bundles.field(1, -2) + bundles.field(2, 2**63 - 1))
    assert [get_int(fields, field) for field in (1, 2, 3)] == [-2, 2**63 - 1, 0]


def test_messages_of_a_repeated_field_keep_their_order() -> None:
    data = bundles.field(2, bundles.field(1, 7)) + bundles.field(2, bundles.field(1, 5))
    assert [get_int(inner, 1) for inner in get_messages(parse_message(data), 2)] == [7, 5]


def test_fixed_size_integers_are_little_endian() -> None:
    assert parse_message(b"\x35\x01\x02\x00\x00" + b"\x39" + bytes(7) + b"\x01") == {6: [513], 7: [1 << 56]}


@pytest.mark.parametrize("data", [b"\x0b", b"\x12\x05ab", b"\x35\x01"])
def test_an_invalid_message_is_refused(data: bytes) -> None:
    assert refusal(parse_message, data)
