"""Any keys and values, in blocks of any size, come back in order; every byte of the file counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isopix.interop.openai import sstable
from tests.unit.data.refusal import refusal
from tests.unit.interop import bundles

KEYS = st.dictionaries(st.text("ab/", max_size=6).map(str.encode), st.binary(max_size=4), min_size=1)


@given(KEYS, st.integers(1, 5), st.integers(1, 5))
def test_what_was_written_is_read(values: dict[bytes, bytes], per_block: int, restart: int) -> None:
    written, _ = bundles.table(sorted(values.items()), per_block=per_block, restart=restart)
    assert dict(sstable.iter_entries(written)) == values
    assert list(sstable.iter_entries(written)) == sorted(values.items())


def test_oversized_keys_and_values_are_refused() -> None:
    for key, value in (
        (b"k" * (sstable.MAX_KEY_BYTES + 1), b""),
        (b"k", b"v" * (sstable.MAX_VALUE_BYTES + 1)),
    ):
        written, _ = bundles.table([(key, value)])
        assert "allowed: 1024 and 65536" in refusal(list, sstable.iter_entries(written))


@pytest.mark.parametrize("size", [0, 47, 48])
def test_a_file_without_a_footer_is_refused(size: int) -> None:
    assert "magic number" in refusal(list, sstable.iter_entries(bytes(size)))
