"""Pickles made to do harm: refused in one line, soon, and nothing in them runs."""

import collections
import io
import json
import os
import pickle
import subprocess
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.interop import weight_files
from tests.unit.interop.models import (
    load_file,
    refused,
)

HEAD = "lm_head.weight"


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
        "eval": Call(eval, touch),
        "exec": Call(exec, touch),
        "subprocess": Call(subprocess.check_call, ["touch", str(canary)]),
        "os.mkdir": Call(os.mkdir, str(canary)),
        "a method": Call(Path.touch, canary),
        "beside tensors": honest | {"extra": Call(os.system, f"touch {canary}")},
        "as a name": {(Call(os.system, f"touch {canary}"),): torch.ones(1)},
        "nested": honest | {"a": [{"b": (Call(exec, touch),)}]},
        "in an ordered dict": collections.OrderedDict(a=Call(eval, touch)),
    }


KINDS = list(calls(Path("x")))


def protocol_zero(canary: Path) -> bytes:
    return f"cposix\nsystem\n(S'touch {canary}'\ntR.".encode()


def archive(path: Path, content: bytes, **entries: bytes) -> None:
    """A zip file as torch.save lays it out, with this pickle."""
    with zipfile.ZipFile(path, "w") as file:
        for name, data in {"data.pkl": content, "byteorder": b"little", "version": b"3\n", **entries}.items():
            file.writestr(f"archive/{name}", data)


@pytest.mark.parametrize("layout", ["torch.save", "legacy", "zip", "bare pickle"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_pickle_is_executed(source: Path, tmp_path: Path, kind: str, layout: str) -> None:
    canary, path = tmp_path / "canary", source / "pytorch_model.bin"
    (source / "model.safetensors").unlink()
    value = calls(canary)[kind]
    match layout:
        case "torch.save":
            torch.save(value, path)
        case "legacy":
            torch.save(value, path, _use_new_zipfile_serialization=False)
        case "zip":
            archive(path, pickle.dumps(value, 0))
        case "bare pickle":
            path.write_bytes(pickle.dumps(value))
    refused(source, "pytorch_model.bin")
    assert not canary.exists()


def test_the_payloads_run_where_pickles_are_trusted(tmp_path: Path) -> None:
    """Or else the test above would show nothing."""
    for number, kind in enumerate(KINDS):
        canary = tmp_path / f"canary-{number}"
        pickle.loads(pickle.dumps(calls(canary)[kind]))
        assert canary.exists(), kind


def test_a_handwritten_pickle_is_not_executed(source: Path, tmp_path: Path) -> None:
    (source / "model.safetensors").unlink()
    archive(source / "pytorch_model.bin", protocol_zero(tmp_path / "canary"))
    refused(source, "pytorch_model.bin")
    assert not (tmp_path / "canary").exists()


def test_a_pickle_in_a_shard_is_not_executed(source: Path, tmp_path: Path) -> None:
    (source / "model.safetensors").unlink()
    torch.save(calls(tmp_path / "canary")["beside tensors"], source / "part.bin")
    index = json.dumps({"weight_map": {HEAD: "part.bin"}})
    (source / "pytorch_model.bin.index.json").write_text(index)
    refused(source, "part.bin")
    assert not (tmp_path / "canary").exists()


def test_an_unsafe_torch_does_not_read_pickles(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(load_file(source / "model.safetensors"), source / "pytorch_model.bin")
    (source / "model.safetensors").unlink()
    monkeypatch.setattr(weight_files, "SAFE_TORCH", "99.1")
    refused(source, "cannot read safely", "use torch 99.1 or later")


NOT_TENSORS = {
    "a list": [torch.ones(1)],
    "a number": {HEAD: 3},
    "a nested dict": {"state_dict": {HEAD: torch.ones(1)}},
    "a name that is no text": {3: torch.ones(1)},
    "sparse": {HEAD: torch.ones(3, 3).to_sparse()},
    "without memory": {HEAD: torch.ones(3, 3, device="meta")},
    "repeated elements": {HEAD: torch.ones(1).expand(10**11)},
    "one tensor under many names": dict.fromkeys(map(str, range(50)), torch.ones(10_000)),
}


@pytest.mark.parametrize("values", NOT_TENSORS.values(), ids=list(NOT_TENSORS))
def test_a_pickle_of_anything_but_plain_tensors_is_refused(source: Path, values: object) -> None:
    (source / "model.safetensors").unlink()
    torch.save(values, source / "pytorch_model.bin")
    refused(source, "pytorch_model.bin")


class Stored:
    """A storage that a pickle refers to: `count` numbers, whatever there are in truth."""

    def __init__(self, count: int):
        self.count = count


class Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        return ("storage", torch.FloatStorage, "0", "cpu", obj.count) if isinstance(obj, Stored) else None


def forged(path: Path, count: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> None:
    """A file of one tensor whose storage claims `count` numbers and has 16."""
    rebuild = torch._utils._rebuild_tensor_v2
    tensor = Call(rebuild, Stored(count), 0, shape, stride, False, collections.OrderedDict())
    content = io.BytesIO()
    Pickler(content, 2).dump({HEAD: tensor})
    archive(path, content.getvalue(), **{"data/0": b"\0" * 64})


CLAIMS = {
    "a larger storage": (10**12, (10**12,), (1,)),
    "a larger shape": (16, (10**12,), (1,)),
    "one element for all": (16, (10**12,), (0,)),
    "rows that overlap": (16, (8, 8), (1, 1)),
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
def test_a_tensor_larger_than_its_file_is_not_allocated(source: Path, claim: tuple[Any, ...]) -> None:
    (source / "model.safetensors").unlink()
    forged(source / "pytorch_model.bin", *claim)
    tracemalloc.start()
    refused(source, "pytorch_model.bin")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_the_pickle_writer_can_write_a_valid_file(source: Path) -> None:
    """Or else the test above would show nothing."""
    (source / "model.safetensors").unlink()
    forged(source / "pytorch_model.bin", 16, (4, 4), (4, 1))
    refused(source, "n_layer is 2; the weights have 0 layers")


def test_a_compressed_pickle_is_refused(source: Path) -> None:
    with zipfile.ZipFile(source / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"\0" * (1 << 26))
    (source / "model.safetensors").unlink()
    refused(source, "is not a file that torch.save")
