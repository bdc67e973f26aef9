"""TensorFlow's checkpoints: every tensor of every type comes back, and every damaged byte is detected."""

from pathlib import Path

import numpy as np
import pytest

from isopix.interop.tf_checkpoint import find_prefix, open_checkpoint
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
    found = open_checkpoint(prefix)
    for name, array in values.items():
        np.testing.assert_array_equal(found.read(name).numpy(), array, strict=True)


@pytest.mark.parametrize("given", ["model.ckpt-7", "model.ckpt-7.index", ""])
def test_a_prefix_an_index_and_a_folder_are_accepted(prefix: Path, given: str) -> None:
    bundles.write(prefix, TENSORS)
    assert find_prefix(prefix.parent / given) == prefix


def test_no_checkpoint_and_several_are_refused(prefix: Path) -> None:
    assert "does not exist; give the PREFIX" in refusal(find_prefix, prefix)
    for name in (prefix.name, "other"):
        bundles.write(prefix.with_name(name), TENSORS)
    line = refusal(find_prefix, prefix.parent)
    assert "holds 2 checkpoints (model.ckpt-7.index, other.index)" in line


def values(prefix: Path) -> dict[str, np.ndarray]:
    found = open_checkpoint(prefix)
    return {name: found.read(name).numpy() for name in found.shapes}


@pytest.mark.parametrize("damaged", ["index", "shard"])
def test_every_flipped_byte_is_detected_or_harmless(prefix: Path, damaged: str) -> None:
    bundles.write(prefix, TENSORS, shards=2)
    file = bundles.index_of(prefix) if damaged == "index" else bundles.shard_of(prefix, 0, 2)
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            found = values(prefix)
        except ValueError:
            continue
        assert damaged == "index", "every byte of a shard is of a tensor"
        np.testing.assert_equal(found, TENSORS)


def test_a_missing_and_a_truncated_shard_are_refused(prefix: Path) -> None:
    bundles.write(prefix, TENSORS, shards=2)
    bundle, shard = open_checkpoint(prefix), bundles.shard_of(prefix, 0, 2)
    shard.write_bytes(shard.read_bytes()[:-1])
    assert f"{shard}: tensor '{NAMES[-1]}' is damaged" in refusal(bundle.read, NAMES[-1])
    shard.unlink()
    assert str(shard) in refusal(bundle.read, NAMES[-1], kind=FileNotFoundError)


def test_what_is_not_supported_is_refused_by_name(prefix: Path) -> None:
    first = NAMES[0]
    bundles.write(prefix, TENSORS, changes={first: {bundles.DTYPE: 7}})
    assert f"'{first}' has TensorFlow's type 7" in refusal(open_checkpoint(prefix).read, first)
    bundles.write(prefix, TENSORS, changes={first: {bundles.SLICES: b""}})
    assert "slices of partitioned variables" in refusal(open_checkpoint, prefix)
    bundles.write(prefix, TENSORS, big_endian=True)
    assert "it is big-endian" in refusal(open_checkpoint, prefix)
