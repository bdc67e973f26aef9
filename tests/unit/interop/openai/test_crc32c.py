"""The checksum of checkpoints is what the library computes: published values, and the loop over bytes."""

import itertools

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isopix.interop.openai.sstable import mask_crc
from tests.unit.interop import bundles

PUBLISHED = {  # RFC 3720, appendix B.4; the last is the check value of the Castagnoli polynomial
    "zeros": (bytes(32), 0x8A9136AA),
    "ones": (b"\xff" * 32, 0x62A8AB43),
    "rising": (bytes(range(32)), 0x46DD794E),
    "falling": (bytes(range(31, -1, -1)), 0x113FDB5C),
    "digits": (b"123456789", 0xE3069283),
    "nothing": (b"", 0),
}


@pytest.mark.parametrize(("data", "crc"), PUBLISHED.values(), ids=list(PUBLISHED))
def test_published_values(data: bytes, crc: int) -> None:
    assert google_crc32c.value(data) == crc


@given(st.integers(0, 2000), st.integers(0, 2**32 - 1))
def test_equals_the_loop_over_bytes(size: int, seed: int) -> None:
    data = np.random.default_rng(seed).bytes(size)
    assert google_crc32c.value(data) == bundles.crc32c(data)


LONG = np.random.default_rng(0).bytes(2**18 + 77)


@given(st.lists(st.integers(0, len(LONG)), max_size=5))
def test_chunks_extend_to_the_whole(cuts: list[int]) -> None:
    crc, places = 0, [0, *sorted(cuts), len(LONG)]
    for begin, end in itertools.pairwise(places):
        crc = google_crc32c.extend(crc, LONG[begin:end])
    assert crc == google_crc32c.value(LONG)


def test_every_flipped_bit_of_a_row_is_detected() -> None:
    data = bytearray(LONG)
    sound = google_crc32c.value(bytes(data))
    for bit in range(0, 8 * len(data), 40_009):
        data[bit // 8] ^= 1 << bit % 8
        assert google_crc32c.value(bytes(data)) != sound
        data[bit // 8] ^= 1 << bit % 8


def test_mask_rotates_by_fifteen_bits_and_adds() -> None:
    assert mask_crc(0) == 0xA282EAD8
    assert mask_crc(1 << 15) == 0xA282EAD9
    assert mask_crc(0xFFFFFFFF) == 0xA282EAD7
