"""Reading TensorFlow's checkpoints: what a test wrote comes back, and every damage is found and named."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.interop.openai import tf_checkpoint as reader
from isopix.interop.openai.tf_checkpoint import TFCheckpoint
from tests.unit.interop import bundles
from tests.unit.interop.bundles import NAMES, Regions, refused, tensors


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "model.ckpt-7"


@pytest.fixture
def regions(prefix: Path) -> Regions:
    """A sound checkpoint of two shards and three data blocks, and where its parts lie."""
    return bundles.write(prefix, tensors(), shards=2)


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("per_block", [1, 4, 100])
@pytest.mark.parametrize("restart", [1, 3, 100])
def test_what_was_written_is_read(
    prefix: Path, big_endian: bool, shards: int, per_block: int, restart: int
) -> None:
    written = bundles.layout(tensors(), shards=shards, big_endian=big_endian)
    written.write(prefix, per_block=per_block, restart=restart)
    bundle = TFCheckpoint.open(prefix)
    assert bundle.big_endian is big_endian
    assert set(bundle.entries) == set(NAMES)
    for name, array in tensors().items():
        assert torch.equal(bundle.read(name), torch.from_numpy(array))


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("kind", bundles.DATA_TYPES)
def test_every_dtype_is_read(prefix: Path, kind: str, big_endian: bool) -> None:
    array = np.arange(6).reshape(1, 2, 3).astype(kind)
    bundles.write(prefix, {"x": array}, big_endian=big_endian)
    tensor = TFCheckpoint.open(prefix).read("x")
    assert TFCheckpoint.open(prefix).entries["x"].dtype == kind
    np.testing.assert_array_equal(tensor.numpy(), array, strict=True)


@pytest.mark.parametrize("big_endian", [False, True])
def test_half_of_a_float32_is_read_as_bfloat16(prefix: Path, big_endian: bool) -> None:
    values = torch.tensor([1.5, -2.0, 0.1], dtype=torch.bfloat16)
    written = bundles.layout({"x": values.view(torch.int16).numpy()}, big_endian=big_endian)
    written.with_place("x", dtype=14).write(prefix)
    assert torch.equal(TFCheckpoint.open(prefix).read("x"), values)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
def test_scalars_and_empty_tensors_are_read(prefix: Path, shape: tuple[int, ...]) -> None:
    bundles.write(prefix, {"x": np.ones(shape, np.float32), "y": np.ones(2, np.float32)})
    assert torch.equal(TFCheckpoint.open(prefix).read("x"), torch.ones(shape))


def test_a_tensor_of_several_chunks_is_read(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(1).normal(size=(999,)).astype(np.float32)
    bundles.write(prefix, {"a": array[:5], "x": array})
    monkeypatch.setattr(reader, "CHUNK", 1000)
    assert torch.equal(TFCheckpoint.open(prefix).read("x"), torch.from_numpy(array))


@pytest.mark.usefixtures("regions")
@pytest.mark.parametrize("given_as", ["", ".index"])
def test_prefix_may_be_given_as_the_index_file(prefix: Path, given_as: str) -> None:
    assert TFCheckpoint.open(prefix.with_name(prefix.name + given_as)).prefix == prefix


@pytest.mark.usefixtures("regions")
def test_prefix_may_be_given_as_its_folder(prefix: Path) -> None:
    assert TFCheckpoint.open(prefix.parent).prefix == prefix


@pytest.mark.usefixtures("regions")
def test_a_folder_of_two_checkpoints_is_refused(prefix: Path) -> None:
    bundles.write(prefix.with_name("model.ckpt-8"), tensors())
    refused(
        lambda: TFCheckpoint.open(prefix.parent), "2 checkpoints", "model.ckpt-7.index, model.ckpt-8.index"
    )


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    refused(lambda: TFCheckpoint.open(tmp_path), "0 checkpoints")


def test_a_missing_index_is_named(prefix: Path) -> None:
    refused(lambda: TFCheckpoint.open(prefix), f"{prefix}.index does not exist")


@pytest.mark.usefixtures("regions")
def test_a_missing_shard_is_named(prefix: Path) -> None:
    gone = bundles.shard_of(prefix, 1, 2)
    gone.unlink()
    refused(lambda: TFCheckpoint.open(prefix), f"{gone} does not exist")


def test_every_truncation_of_the_index_is_detected(prefix: Path, regions: Regions) -> None:
    index = bundles.index_of(prefix)
    whole = index.read_bytes()
    for size in range(regions.footer[1]):
        index.write_bytes(whole[:size])
        refused(lambda: TFCheckpoint.open(prefix), f"{index}: ", "truncated")


def test_every_flipped_byte_of_the_index_is_detected(prefix: Path, regions: Regions) -> None:
    """In each region: data blocks, meta-index, index, their trailers, footer and its padding."""
    index = bundles.index_of(prefix)
    whole = index.read_bytes()
    for place in range(regions.footer[1]):
        flipped = whole[place] ^ 1 << place % 8
        index.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        refused(lambda: TFCheckpoint.open(prefix), f"{index}: ")


@pytest.mark.parametrize("where", ["first", "last"])
@pytest.mark.parametrize("region", ["data", "meta", "index"])
def test_a_damaged_block_is_named_by_its_offset(
    prefix: Path, regions: Regions, region: str, where: str
) -> None:
    begin, end = regions.data[1] if region == "data" else getattr(regions, region)
    index = bundles.index_of(prefix)
    data = bytearray(index.read_bytes())
    data[begin if where == "first" else end - 6] ^= 4
    index.write_bytes(data)
    refused(lambda: TFCheckpoint.open(prefix), f"{index}: the block at byte {begin} is damaged", "checksum")


def test_every_truncation_of_a_shard_is_detected(prefix: Path, regions: Regions) -> None:
    shard = bundles.shard_of(prefix, 1, 2)
    whole = shard.read_bytes()
    for size in range(len(whole)):
        shard.write_bytes(whole[:size])
        refused(lambda: TFCheckpoint.open(prefix), f"{shard} has {size} bytes", "truncated")


def test_a_shard_truncated_after_opening_is_detected(prefix: Path, regions: Regions) -> None:
    bundle, shard = TFCheckpoint.open(prefix), bundles.shard_of(prefix, 0, 2)
    shard.write_bytes(shard.read_bytes()[:-1])
    refused(lambda: bundle.read(NAMES[-1]), f"{shard} is truncated", NAMES[-1])


def test_every_flipped_byte_of_a_shard_is_detected_in_its_tensor(prefix: Path, regions: Regions) -> None:
    bundle, shard = TFCheckpoint.open(prefix), bundles.shard_of(prefix, 0, 2)
    whole = shard.read_bytes()
    inside = {name: entry for name, entry in bundle.entries.items() if entry.shard == 0}
    for place in range(len(whole)):
        flipped = whole[place] ^ 1 << place % 8
        shard.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        for name, entry in inside.items():
            if entry.offset <= place < entry.offset + entry.size:
                refused(lambda name=name: bundle.read(name), f"{shard}: tensor '{name}' is damaged")
            else:
                bundle.read(name)


def test_an_unsupported_dtype_is_listed_and_refused_by_name(prefix: Path) -> None:
    bundles.layout(tensors()).with_place(NAMES[0], dtype=7).with_place(NAMES[1], dtype=99).write(prefix)
    bundle = TFCheckpoint.open(prefix)
    refused(lambda: bundle.read(NAMES[0]), NAMES[0], "type string")
    refused(lambda: bundle.read(NAMES[1]), NAMES[1], "type number 99")


@pytest.mark.usefixtures("regions")
def test_an_index_too_large_is_not_read(prefix: Path) -> None:
    with bundles.index_of(prefix).open("r+b") as file:
        file.truncate(reader.MAX_INDEX_BYTES + 1)  # a hole: it takes no disk
    refused(lambda: TFCheckpoint.open(prefix), "67108865 bytes; allowed: 67108864")


def test_too_many_tensors_are_refused(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundles.write(prefix, tensors())
    monkeypatch.setattr(reader, "MAX_TENSORS", len(NAMES))
    assert len(TFCheckpoint.open(prefix).entries) == len(NAMES)
    monkeypatch.setattr(reader, "MAX_TENSORS", len(NAMES) - 1)
    refused(lambda: TFCheckpoint.open(prefix), "more than 8 tensors")
