"""Tensors whose rows are in several files are read as one, or refused in one line."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from isopix.storage import checkpoint
from isopix.storage.checkpoint import load_checkpoint, save_checkpoint

WEIGHT = torch.arange(15.0).reshape(5, 3)
STEP = torch.tensor(7.0)
Parts = Mapping[str, tuple[Tensor, list[int]]]
SHARDS: list[Parts] = [
    {"weight": (WEIGHT[:2], [0, 0]), "weight/step": (STEP, [])},
    {"weight": (WEIGHT[2:4], [2, 0]), "bias": (WEIGHT[0], [0])},
    {"weight": (WEIGHT[4:], [4, 0])},
]


def write(path: Path, parts: Parts) -> None:
    """Write a file as `torch.distributed.checkpoint` does, its offsets in the metadata."""
    path.parent.mkdir(exist_ok=True)
    offsets = {name: {"saved_offsets": offset} for name, (_, offset) in parts.items()}
    tensors = {name: part.clone() for name, (part, _) in parts.items()}
    save_file(tensors, path, {"DCP_SHARDING_INFO": json.dumps(offsets)})


def saved(folder: Path, shards: list[Parts]) -> Path:
    def write_shards(temporary: Path) -> None:
        for number, parts in enumerate(shards):
            write(temporary / "model" / f"shard-{number}.safetensors", parts)

    save_checkpoint(folder / "step-00000001", {"other": {"bias": STEP}}, {"state": {"step": 1}}, write_shards)
    return folder / "step-00000001"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_rows_of_several_files_are_one_tensor(tmp_path: Path, order: tuple[int, ...]) -> None:
    folder = saved(tmp_path, [SHARDS[i] for i in order])
    found = load_checkpoint(folder)
    assert found.tensors.keys() == {"model", "other"}
    model = found.tensors["model"]
    assert model.keys() == {"weight", "weight/step", "bias"}
    assert torch.equal(model["weight"], WEIGHT)
    assert torch.equal(model["weight/step"], STEP)
    assert torch.equal(load_checkpoint(folder, ["model"]).tensors["model"]["bias"], WEIGHT[0])
    assert load_checkpoint(folder, ["other"]).tensors.keys() == {"other"}
    assert sorted(checkpoint.verify_files(folder)) == [
        *(f"model/shard-{i}.safetensors" for i in range(3)),
        "other.safetensors",
        "state.json",
    ]


def test_missing_rows_are_named_in_one_line(tmp_path: Path) -> None:
    folder = saved(tmp_path, [SHARDS[0], SHARDS[2]])
    with pytest.raises(checkpoint.DamagedCheckpointError) as error:
        load_checkpoint(folder)
    assert error.value.reason == "rows of tensor 'weight' are missing from the shards"
