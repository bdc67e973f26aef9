"""Tensors whose rows are in several files are read as one, or refused in one line."""

import hashlib
import json
from collections.abc import Callable, Mapping
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


def saved(folder: Path, shards: list[Parts], whole: bool = False) -> Path:
    def write_shards(temporary: Path) -> None:
        for number, parts in enumerate(shards):
            write(temporary / "model" / f"shard-{number}.safetensors", parts)

    tensors = {"model": {"weight": WEIGHT}} if whole else {"other": {"bias": STEP}}
    save_checkpoint(folder / "step-00000001", tensors, {"state": {"step": 1}}, write_shards)
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


def without_metadata(folder: Path) -> None:
    forge(folder, "model/shard-1.safetensors", lambda path: save_file({"bias": STEP}, path))


def forge(folder: Path, name: str, change: Callable[[Path], None]) -> None:
    """Change a file, and give the manifest its size and hash."""
    change(folder / name)
    data = (folder / name).read_bytes()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def replaced(parts: Parts) -> Callable[[Path], None]:
    return lambda folder: forge(folder, "model/shard-1.safetensors", lambda path: write(path, parts))


GAP = "rows of tensor 'weight' are missing from the shards"
DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "gap": (replaced({"weight": (WEIGHT[2:3], [2, 0])}), GAP),
    "overlap": (replaced({"weight": (WEIGHT[1:4], [1, 0])}), GAP),
    "columns": (
        replaced({"weight": (WEIGHT[2:4, 1:], [2, 1])}),
        "shard-1.safetensors has no rows of tensor 'weight'",
    ),
    "scalar": (
        replaced({"weight": (WEIGHT[2:4], [2])}),
        "shard-1.safetensors has no rows of tensor 'weight'",
    ),
    "no offsets": (without_metadata, "shard-1.safetensors has no offsets of its tensors"),
    "other shapes": (replaced({"weight": (WEIGHT[2:4, :2], [2, 0])}), "shapes"),
    "removed": (
        lambda folder: (folder / "model/shard-1.safetensors").unlink(),
        "model/shard-1.safetensors is missing",
    ),
    "changed": (
        lambda folder: write(folder / "model/shard-1.safetensors", {**SHARDS[1], "bias": (WEIGHT[1], [0])}),
        "model/shard-1.safetensors does not have the sha256 of the manifest: changed",
    ),
    "added": (
        lambda folder: write(folder / "model/extra.safetensors", SHARDS[0]),
        "model/extra.safetensors is not in manifest.json",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_in_one_line(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path, SHARDS)
    damage, reason = DAMAGES[name]
    damage(folder)
    with pytest.raises(checkpoint.DamagedCheckpointError) as error:
        load_checkpoint(folder)
    assert reason in error.value.reason
    assert "\n" not in str(error.value)


def test_a_group_is_one_file_or_shards(tmp_path: Path) -> None:
    folder = saved(tmp_path, SHARDS, whole=True)
    with pytest.raises(checkpoint.DamagedCheckpointError, match="is there, and also as shards"):
        load_checkpoint(folder)
