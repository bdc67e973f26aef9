"""TensorFlow's checkpoints: every tensor of every type comes back, and every damaged byte is detected."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isopix.interop import tf_checkpoint
from isopix.interop.tf_checkpoint import TFCheckpoint, mask_crc
from tests.unit.interop import bundles
from tests.unit.interop.bundles import NAMES, refused, tensors


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "model.ckpt-7"


KEYS = st.dictionaries(st.text("ab/", max_size=6).map(str.encode), st.binary(max_size=4), min_size=1)


@given(KEYS, st.integers(1, 5), st.integers(1, 5))
def test_any_table_is_read(values: dict[bytes, bytes], per_block: int, restart: int) -> None:
    written = bundles.table(sorted(values.items()), per_block=per_block, restart=restart)
    assert list(tf_checkpoint._table(written)) == sorted(values.items())


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("kind", list(bundles.DATA_TYPES))
def test_every_type_is_read(prefix: Path, kind: str, big_endian: bool) -> None:
    draw = np.random.default_rng(0)
    values = {f"a{n}": draw.integers(0, 99, shape).astype(kind) for n, shape in enumerate([(), (0,), (3, 2)])}
    bundles.write(prefix, values, shards=2, big_endian=big_endian)
    found = TFCheckpoint.open(prefix)
    for name, array in values.items():
        np.testing.assert_array_equal(found.read(name).numpy(), array, strict=True)


@pytest.mark.parametrize("given", ["model.ckpt-7", "model.ckpt-7.index", ""])
def test_a_prefix_an_index_and_a_folder_are_accepted(prefix: Path, given: str) -> None:
    bundles.write(prefix, tensors())
    assert TFCheckpoint.open(prefix.parent / given).entries.keys() == set(NAMES)


def test_no_checkpoint_and_several_are_refused(prefix: Path) -> None:
    refused(lambda: TFCheckpoint.open(prefix), "does not exist; give the PREFIX")
    refused(lambda: TFCheckpoint.open(prefix.parent), "holds 0 checkpoints (none)")
    bundles.write(prefix, tensors())
    bundles.write(prefix.with_name("other"), tensors())
    refused(lambda: TFCheckpoint.open(prefix.parent), "holds 2 checkpoints (model.ckpt-7.index, other.index)")


def test_every_flipped_byte_of_the_index_is_detected_or_harmless(prefix: Path) -> None:
    bundles.write(prefix, tensors())
    index = bundles.index_of(prefix)
    whole, entries = index.read_bytes(), TFCheckpoint.open(prefix).entries
    for place in range(len(whole)):
        index.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with suppress(ValueError):
            assert TFCheckpoint.open(prefix).entries == entries, place


def test_every_flipped_byte_of_a_shard_is_detected_in_its_tensor(prefix: Path) -> None:
    bundles.write(prefix, tensors(), shards=2)
    bundle, shard = TFCheckpoint.open(prefix), bundles.shard_of(prefix, 0, 2)
    whole = shard.read_bytes()
    inside = {name: entry for name, entry in bundle.entries.items() if entry.shard == 0}
    for place in range(len(whole)):
        shard.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        for name, entry in inside.items():
            if entry.offset <= place < entry.offset + entry.size:
                refused(lambda name=name: bundle.read(name), f"{shard}: tensor '{name}' is damaged")
            else:
                bundle.read(name)


def test_a_missing_a_truncated_and_a_wrong_shard_are_refused(prefix: Path) -> None:
    bundles.write(prefix, tensors(), shards=2)
    bundle, shard = TFCheckpoint.open(prefix), bundles.shard_of(prefix, 0, 2)
    shard.write_bytes(shard.read_bytes()[:-1])
    refused(lambda: bundle.read(NAMES[-1]), f"{shard} is truncated", NAMES[-1])
    shard.unlink()
    refused(lambda: bundle.read(NAMES[-1]), f"{shard} does not exist; all 2 shards are needed")


def test_what_is_not_supported_is_refused_by_name(prefix: Path) -> None:
    written = bundles.layout(tensors())
    written.with_place(NAMES[0], dtype=7).with_place(NAMES[1], size=3).write(prefix)
    bundle = TFCheckpoint.open(prefix)
    refused(lambda: bundle.read(NAMES[0]), NAMES[0], "type 7, which is not supported")
    refused(lambda: bundle.read(NAMES[1]), NAMES[1], "has 3 bytes")
    written.with_place(NAMES[0], extra=bundles.field(7, b"")).write(prefix)
    refused(lambda: TFCheckpoint.open(prefix), "slices of partitioned variables")
    written.write(prefix, compression=1)
    refused(lambda: TFCheckpoint.open(prefix), "is compressed")


def test_mask_rotates_by_fifteen_bits_and_adds() -> None:
    assert mask_crc(0) == 0xA282EAD8
    assert mask_crc(1 << 15) == 0xA282EAD9
    assert mask_crc(0xFFFFFFFF) == 0xA282EAD7
