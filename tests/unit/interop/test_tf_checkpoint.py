"""TensorFlow's checkpoints: every tensor of every type comes back, and every damaged byte is detected."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from isopix.interop.tf_checkpoint import TFCheckpoint
from tests.unit.data.refusal import refusal
from tests.unit.interop import bundles

NAMES = [f"model/h{layer}/{part}" for layer in range(3) for part in ("ln_1/g", "mlp/c_fc/w", "mlp/c_proj/w")]
TENSORS = {name: np.full((2, n + 1), n / 7, np.float32) for n, name in enumerate(NAMES)}


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "model.ckpt-7"


@pytest.mark.parametrize("kind", list(bundles.DATA_TYPES))
def test_every_type_is_read(prefix: Path, kind: str) -> None:
    draw = np.random.default_rng(0)
    values = {f"a{n}": draw.integers(0, 99, shape).astype(kind) for n, shape in enumerate([(), (0,), (3, 2)])}
    bundles.write(prefix, values, shards=2)
    found = TFCheckpoint.open(prefix)
    for name, array in values.items():
        np.testing.assert_array_equal(found.read(name).numpy(), array, strict=True)


@pytest.mark.parametrize("given", ["model.ckpt-7", "model.ckpt-7.index", ""])
def test_a_prefix_an_index_and_a_folder_are_accepted(prefix: Path, given: str) -> None:
    bundles.write(prefix, TENSORS)
    assert TFCheckpoint.open(prefix.parent / given).entries.keys() == set(NAMES)


def test_no_checkpoint_and_several_are_refused(prefix: Path) -> None:
    assert "does not exist; give the PREFIX" in refusal(TFCheckpoint.open, prefix)
    for name in (prefix.name, "other"):
        bundles.write(prefix.with_name(name), TENSORS)
    line = refusal(TFCheckpoint.open, prefix.parent)
    assert "holds 2 checkpoints (model.ckpt-7.index, other.index)" in line


def test_every_flipped_byte_of_the_index_is_detected_or_harmless(prefix: Path) -> None:
    bundles.write(prefix, TENSORS)
    index = bundles.index_of(prefix)
    whole, entries = index.read_bytes(), TFCheckpoint.open(prefix).entries
    for place in range(len(whole)):
        index.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with suppress(ValueError):
            assert TFCheckpoint.open(prefix).entries == entries, place


def test_every_flipped_byte_of_a_shard_is_detected_in_its_tensor(prefix: Path) -> None:
    bundles.write(prefix, TENSORS, shards=2)
    bundle, shard = TFCheckpoint.open(prefix), bundles.shard_of(prefix, 0, 2)
    whole = shard.read_bytes()
    inside = {name: entry for name, entry in bundle.entries.items() if entry.shard == 0}
    for place in range(len(whole)):
        shard.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        for name, entry in inside.items():
            if entry.offset <= place < entry.offset + entry.size:
                assert f"{shard}: tensor '{name}' is damaged" in refusal(bundle.read, name)
            else:
                bundle.read(name)


def test_a_missing_and_a_truncated_shard_are_refused(prefix: Path) -> None:
    bundles.write(prefix, TENSORS, shards=2)
    bundle, shard = TFCheckpoint.open(prefix), bundles.shard_of(prefix, 0, 2)
    shard.write_bytes(shard.read_bytes()[:-1])
    assert f"{shard} is truncated: it ends inside tensor '{NAMES[-1]}'" in refusal(bundle.read, NAMES[-1])
    shard.unlink()
    assert f"{shard} does not exist; all 2 shards are needed" in refusal(bundle.read, NAMES[-1])


def test_what_is_not_supported_is_refused_by_name(prefix: Path) -> None:
    first, second, *_ = NAMES
    bundles.write(prefix, TENSORS, changes={first: {bundles.DTYPE: 7}, second: {bundles.SIZE: 3}})
    bundle = TFCheckpoint.open(prefix)
    assert f"'{first}' has TensorFlow's type 7" in refusal(bundle.read, first)
    assert f"'{second}' has 3 bytes" in refusal(bundle.read, second)
    bundles.write(prefix, TENSORS, changes={first: {bundles.SLICES: b""}})
    assert "slices of partitioned variables" in refusal(TFCheckpoint.open, prefix)
    bundles.write(prefix, TENSORS, big_endian=True)
    assert "it is big-endian" in refusal(TFCheckpoint.open, prefix)
    bundles.write(prefix, TENSORS, compression=1)
    assert "is compressed" in refusal(TFCheckpoint.open, prefix)
