"""Weights in every form that is read: whole, in shards, as a pickle of tensors, behind a link."""

import json
from pathlib import Path

import pytest
import torch

from isopix.interop.imagegpt import read_imagegpt
from tests.unit.data.refusal import refusal
from tests.unit.interop import models
from tests.unit.interop.models import change_json, change_weights

HEAD = "lm_head.weight"


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_shards_hold_the_same_model(source: Path, kind: str) -> None:
    tensors, name = models.load_file(source / "model.safetensors"), sharded(source, kind)
    imported = read_imagegpt(source)
    assert not (source / name).exists()
    assert torch.equal(imported.tensors["head.project.weight"], tensors[HEAD])


def sharded(source: Path, kind: str) -> str:
    """Replace `model.safetensors` by two shards; the name that the whole file would have."""
    stem = "model" if kind == "safetensors" else "pytorch_model"
    tensors = models.load_file(source / "model.safetensors")
    (source / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: f"{stem}-0000{1 + n % 2}-of-00002.{kind}" for n, name in enumerate(names)}
    for place in set(places.values()):
        part = {name: tensors[name] for name in names if places[name] == place}
        models.save_file(part, source / place) if kind == "safetensors" else torch.save(part, source / place)
    (source / f"{stem}.{kind}.index.json").write_text(json.dumps({"weight_map": places}))
    return f"{stem}.{kind}"


def test_shards_that_differ_from_the_index_are_refused(source: Path) -> None:
    sharded(source, "safetensors")
    index = source / "model.safetensors.index.json"
    places = json.loads(index.read_text())["weight_map"]
    other = {"model-00001-of-00002.safetensors": 2, "model-00002-of-00002.safetensors": 1}
    moved = {**places, HEAD: f"model-0000{other[places[HEAD]]}-of-00002.safetensors"}
    change_json(index, weight_map=moved)
    assert HEAD in refusal(read_imagegpt, source)
    change_json(index, weight_map={name: place for name, place in places.items() if name != HEAD})
    assert HEAD in refusal(read_imagegpt, source)
    for outside in ("../secret.safetensors", "/etc/passwd", "folder/model.safetensors"):
        change_json(index, weight_map={**places, HEAD: outside})
        assert "which is not a file beside it" in refusal(read_imagegpt, source)
    change_json(index, weight_map={**places, HEAD: "model-00003.safetensors"})
    assert "lists 'model-00003.safetensors', which is not a file beside it" in refusal(read_imagegpt, source)


def test_a_pickle_of_tensors_is_read_without_safetensors(source: Path) -> None:
    tensors = models.load_file(source / "model.safetensors")
    torch.save(tensors, source / "pytorch_model.bin")
    change_weights(source, lambda tensors: tensors[HEAD].zero_())
    assert not read_imagegpt(source).tensors["head.project.weight"].any()
    (source / "model.safetensors").unlink()
    assert torch.equal(read_imagegpt(source).tensors["head.project.weight"], tensors[HEAD])


def test_linked_files_are_read(source: Path, tmp_path: Path) -> None:
    (source / "model.safetensors").rename(tmp_path / "blob")
    (source / "model.safetensors").symlink_to(tmp_path / "blob")
    assert read_imagegpt(source).recipe.model.depth == 2
