"""Weights in every form that is read, of which no code is run, and their way into a run folder."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from isopix.interop.imagegpt import read_imagegpt
from isopix.interop.imported_model import convert_tensors
from isopix.interop.name_tables import Naming, with_class_position
from isopix.interop.weights import WeightFiles
from tests.unit.data.refusal import refusal
from tests.unit.interop.models import HEAD, change_json, change_weights


def sharded(source: Path, kind: str) -> None:
    """Replace `model.safetensors` by two shards."""
    stem = "model" if kind == "safetensors" else "pytorch_model"
    tensors = load_file(source / "model.safetensors")
    (source / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: f"{stem}-0000{1 + n % 2}-of-00002.{kind}" for n, name in enumerate(names)}
    for place in set(places.values()):
        part = {name: tensors[name] for name in names if places[name] == place}
        save_file(part, source / place) if kind == "safetensors" else torch.save(part, source / place)
    (source / f"{stem}.{kind}.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_shards_hold_the_same_model(source: Path, kind: str) -> None:
    head = load_file(source / "model.safetensors")[HEAD]
    sharded(source, kind)
    assert torch.equal(read_imagegpt(source).tensors["head.project.weight"], head)


def test_shards_are_files_beside_their_index(source: Path) -> None:
    sharded(source, "safetensors")
    index = source / "model.safetensors.index.json"
    places = json.loads(index.read_text())["weight_map"]
    for outside in ("../secret.safetensors", "/etc/passwd", "model-3.safetensors"):
        change_json(index, weight_map={**places, HEAD: outside})
        assert "which is not a file beside it" in refusal(read_imagegpt, source)
    change_json(index, weight_map={name: place for name, place in places.items() if place != places[HEAD]})
    assert f"without {HEAD}" in refusal(read_imagegpt, source)


def test_a_pickle_of_tensors_is_read_without_safetensors(source: Path) -> None:
    tensors = load_file(source / "model.safetensors")
    torch.save(tensors, source / "pytorch_model.bin")
    change_weights(source, lambda tensors: tensors[HEAD].zero_())
    assert not read_imagegpt(source).tensors["head.project.weight"].any()
    (source / "model.safetensors").unlink()
    assert torch.equal(read_imagegpt(source).tensors["head.project.weight"], tensors[HEAD])
    torch.save({HEAD: 1.0}, source / "pytorch_model.bin")
    assert "pytorch_model.bin holds something else than tensors" in refusal(read_imagegpt, source)


@pytest.mark.parametrize("legacy", [False, True])
def test_pickles_of_both_formats_are_the_same_model(source: Path, legacy: bool) -> None:
    own, stored = read_imagegpt(source).tensors, load_file(source / "model.safetensors")
    (source / "model.safetensors").unlink()
    torch.save(stored, source / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    found = read_imagegpt(source).tensors
    assert {name: each.tolist() for name, each in found.items()} == {name: own[name].tolist() for name in own}


class Call:
    """What a pickle calls when it is loaded."""

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.arguments


def calls(canary: Path) -> dict[str, Any]:
    """Things that create the canary when they are unpickled, bare and hidden beside honest tensors."""
    touch = f"open({str(canary)!r}, 'w').close()"
    honest = {HEAD: torch.ones(3, 3)}
    return {
        "os.system": Call(os.system, f"touch {canary}"),
        "a method": Call(Path.touch, canary),
        "beside tensors": honest | {"a": [{"b": (Call(exec, touch),)}]},
    }


@pytest.mark.parametrize("layout", ["torch.save", "legacy", "bare pickle", "shard"])
@pytest.mark.parametrize("kind", list(calls(Path("x"))))
def test_no_pickle_is_executed(source: Path, tmp_path: Path, kind: str, layout: str) -> None:
    canary, path = tmp_path / "canary", source / "pytorch_model.bin"
    (source / "model.safetensors").unlink()
    value = calls(canary)[kind]
    if layout == "bare pickle":
        path.write_bytes(pickle.dumps(value))
    elif layout == "shard":
        path = source / "part.bin"
        (source / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {HEAD: "part.bin"}}))
    if layout != "bare pickle":
        torch.save(value, path, _use_new_zipfile_serialization=layout != "legacy")
    assert path.name in refusal(read_imagegpt, source)
    assert not canary.exists()
    pickle.loads(pickle.dumps(value))
    assert canary.exists(), "the payload does nothing where pickles are trusted"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_become_float32_before_they_are_summed(dtype: torch.dtype) -> None:
    token, table = torch.ones(1, 1, 1, dtype=dtype), torch.full((1, 2, 1), 1e-4, dtype=dtype)
    given = {"token": token, "table": table}
    stored = WeightFiles({name: tuple(each.shape) for name, each in given.items()}, given.__getitem__)
    mapping = with_class_position(("token", "table"), ("a", "b"))
    own = {"a": torch.empty(1), "b": torch.empty(1, 1)}
    tensors, _ = convert_tensors(stored, Naming("theirs", ""), [mapping], own)
    assert torch.equal(tensors["b"], table[0, 1:].float())
    assert torch.equal(tensors["a"], 1 + table[0, 0].float())
