"""Arrays and tensors: what was written is read; damage and other content are one line."""

import json
import math
import resource
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from isopix.core.choices import Number
from isopix.storage.arrays import open_memmap, read_arrays, read_tensors, write_npy, write_tensors
from isopix.storage.checkpoint import DamagedCheckpointError, load_checkpoint, save_checkpoint, verify_files
from isopix.storage.result import Result

VALUES = np.arange(4000, dtype=np.uint8).reshape(10, 400)


def test_an_archive_of_more_than_the_limit_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", a=np.zeros(2**20, np.uint8), b=np.zeros(2**20, np.uint8))
    with pytest.raises(ValueError, match="arrays have 2,097,408 bytes, above the limit of 2,097,152"):
        read_arrays(tmp_path / "bomb.npz", 2**21)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_flipped_bytes_give_arrays_or_a_one_line_error(tmp_path: Path, save) -> None:
    path, draw = tmp_path / "some.npz", np.random.default_rng(0)
    save(path, colors=VALUES, words=np.array(["a", "b"]))
    whole, reasons = path.read_bytes(), []
    for _ in range(150):
        damaged = np.frombuffer(whole, np.uint8).copy()
        places = draw.integers(0, len(whole), 4)
        damaged[places] ^= draw.integers(1, 256, 4, dtype=np.uint8)
        path.write_bytes(damaged.tobytes())
        try:
            read_arrays(path)
        except ValueError as error:
            reasons.append(str(error))
    assert len(reasons) > 50
    assert [reason for reason in reasons if not reason or "\n" in reason] == []


@pytest.mark.parametrize("dtype", [np.uint8, np.float16])
@pytest.mark.parametrize("rows", [0, 3])
def test_a_file_written_in_parts_is_what_numpy_saves(tmp_path: Path, rows: int, dtype: type) -> None:
    values, path = np.arange(rows * 8).reshape(rows, 2, 4).astype(dtype), tmp_path / "parts.npy"
    write_npy(path, [values[:0], *np.array_split(values, 2)])
    found = open_memmap(path).numpy()
    assert np.array_equal(np.load(path), values)
    assert np.array_equal(found, values)
    assert found.dtype == dtype


def test_tensors_are_read_as_they_were_also_those_that_share_memory(tmp_path: Path) -> None:
    whole = torch.arange(12, dtype=torch.float32).view(3, 4)
    tensors = {"whole": whole, "again": whole, "row": whole[1], "turned": whole.T, "half": whole.half()}
    tensors |= {"number": torch.tensor(3), "none": torch.zeros(0, 4)}
    write_tensors(tmp_path / "a.safetensors", tensors)
    found = read_tensors(tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").write_bytes(bytes(1000))  # they outlive their file
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_writing_copies_nothing(tmp_path: Path) -> None:
    tensors = {str(number): torch.ones(1 << 20) for number in range(64)}  # 256 MiB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    write_tensors(tmp_path / "a.safetensors", tensors)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


WEIGHT = torch.arange(15.0).reshape(5, 3)
STEP = torch.tensor(7.0)
Parts = Mapping[str, tuple[Tensor, list[int]]]
SHARDS: list[Parts] = [
    {"weight": (WEIGHT[:2], [0, 0]), "weight/step": (STEP, [])},
    {"weight": (WEIGHT[2:4], [2, 0]), "bias": (WEIGHT[0], [0])},
    {"weight": (WEIGHT[4:], [4, 0])},
]


def saved(folder: Path, shards: list[Parts]) -> Path:
    """Save a checkpoint with shards as `torch.distributed.checkpoint` writes them."""

    def write_shards(temporary: Path) -> None:
        (temporary / "model").mkdir()
        for number, parts in enumerate(shards):
            offsets = {name: {"saved_offsets": offset} for name, (_, offset) in parts.items()}
            tensors = {name: part.clone() for name, (part, _) in parts.items()}
            path = temporary / "model" / f"shard-{number}.safetensors"
            save_file(tensors, path, {"DCP_SHARDING_INFO": json.dumps(offsets)})

    save_checkpoint(folder / "step-00000001", {"other": {"bias": STEP}}, {"state": {"step": 1}}, write_shards)
    return folder / "step-00000001"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_rows_of_several_files_are_one_tensor(tmp_path: Path, order: tuple[int, ...]) -> None:
    folder = saved(tmp_path, [SHARDS[i] for i in order])
    found = load_checkpoint(folder).tensors
    assert (found.keys(), found["model"].keys()) == ({"model", "other"}, {"weight", "weight/step", "bias"})
    assert torch.equal(found["model"]["weight"], WEIGHT)
    assert torch.equal(found["model"]["weight/step"], STEP)
    assert torch.equal(load_checkpoint(folder, ["model"]).tensors["model"]["bias"], WEIGHT[0])
    assert {f"model/shard-{i}.safetensors" for i in range(3)} < {*verify_files(folder)}


@pytest.mark.parametrize("lost", [0, 1])
def test_missing_rows_are_named_in_one_line(tmp_path: Path, lost: int) -> None:
    folder = saved(tmp_path, [each for i, each in enumerate(SHARDS) if i != lost])
    with pytest.raises(DamagedCheckpointError, match=r"rows of tensor 'weight' are missing from the shards$"):
        load_checkpoint(folder)


def test_a_record_has_numbers_of_numpy_and_pytorch_as_plain_ones() -> None:
    assert Result(call={"a": np.float32(0.5), "b": torch.tensor(3)}).record()["call"] == {"a": 0.5, "b": 3}


class Numbers(Result):
    loss: float
    fit: Mapping[str, Number]


def test_nan_and_infinity_survive_in_a_record(tmp_path: Path) -> None:
    given = Numbers(loss=math.nan, fit={"a": math.inf, "b": math.nan, "c": 3})
    found = Numbers.read(given.saved(tmp_path / "numbers.json").path)
    assert str([found.loss, found.fit]) == "[nan, {'a': inf, 'b': nan, 'c': 3}]"
