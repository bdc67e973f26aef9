"""Pickles made to do harm are refused in one line, and nothing in them runs."""

import json
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.interop.imagegpt import read_imagegpt
from tests.unit.data.refusal import refusal

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
        "subprocess": Call(subprocess.check_call, ["touch", str(canary)]),
        "a method": Call(Path.touch, canary),
        "beside tensors": honest | {"extra": Call(os.system, f"touch {canary}")},
        "nested": honest | {"a": [{"b": (Call(exec, touch),)}]},
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


@pytest.mark.parametrize("values", [[torch.ones(1)], {HEAD: 3}, {"state_dict": {HEAD: torch.ones(1)}}])
def test_a_pickle_of_anything_but_tensors_is_refused(source: Path, values: object) -> None:
    (source / "model.safetensors").unlink()
    torch.save(values, source / "pytorch_model.bin")
    assert "pytorch_model.bin holds something else than tensors" in refusal(read_imagegpt, source)
