"""Files made to do harm: refused in one line that names what is wrong, soon."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isopix.interop.huggingface.convert import read_imagegpt
from tests.unit.interop.models import (
    change_json,
    change_weights,
    load_file,
    refused,
)

HEAD = "lm_head.weight"


def header(values: object, *, data: bytes = b"", claim: int | None = None) -> bytes:
    """A safetensors file with this header, which may claim another length."""
    text = values if isinstance(values, bytes) else json.dumps(values).encode()
    return (len(text) if claim is None else claim).to_bytes(8, "little") + text + data


def entry(shape: list[int], end: int, dtype: str = "F32") -> dict[str, Any]:
    return {HEAD: {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}


HEADERS = {
    "none": b"",
    "cut": header(b"{", claim=100),
    "of 2^63 bytes": header(b"{}", claim=2**63),
    "of 8 MiB": header(b"{}" + b" " * (8 << 20)),
    "no JSON": header(b"\xff\xfe\x00"),
    "a list": header([1]),
    "nested": header(b"[" * 10**5 + b"]" * 10**5),
    "larger than the file": header(entry([10**6, 10**6], 4 * 10**12)),
    "a shape that overflows": header(entry([2**40, 2**40], 16), data=b"\0" * 16),
    "a shape that its bytes do not hold": header(entry([10**6, 10**6], 16), data=b"\0" * 16),
    "negative": header(entry([-4], 16), data=b"\0" * 16),
    "a hole": header(entry([1], 4), data=b"\0" * 16),
    "an unknown type": header(entry([4], 16, "X99"), data=b"\0" * 16),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=list(HEADERS))
def test_inconsistent_headers_are_refused(source: Path, content: bytes) -> None:
    (source / "model.safetensors").write_bytes(content)
    refused(source, "model.safetensors")


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/etc/passwd",
        "..",
        "a/../b.safetensors",
        "\0.safetensors",
        "x.bin",
        7,
        None,
        "é" * 10**5,
    ],
)
def test_an_index_lists_only_files_next_to_it(source: Path, name: object) -> None:
    tensors = source / "model.safetensors"
    (source.parent / "x.safetensors").write_bytes(tensors.read_bytes())
    tensors.rename(source / "x.bin")
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {HEAD: name}}))
    refused(source, "model.safetensors.index.json", "which is not a .safetensors file next to it")


@pytest.mark.parametrize("places", [None, [], "model.safetensors", {}])
def test_an_index_without_a_weight_map_is_refused(source: Path, places: object) -> None:
    (source / "model.safetensors").unlink()
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    refused(source)


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/passwd", "a\nb", "\0", "__class__", "x" * 10**5, "transformer.h.01.x"]
)
def test_a_tensor_named_like_a_path_is_unknown(source: Path, name: str) -> None:
    change_weights(source, lambda tensors: tensors.update({name: torch.ones(1)}))
    before = set(source.parent.rglob("*"))
    refused(source)
    assert set(source.parent.rglob("*")) == before


NUMBERS = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")


@pytest.mark.parametrize("value", [-1, 0, 10**9, 10**12, 10**300, 1e9, True, None, "9", [[]], {}])
@pytest.mark.parametrize("name", NUMBERS)
def test_impossible_sizes_are_refused(source: Path, name: str, value: object) -> None:
    change_json(source / "config.json", **{name: value})
    refused(source)


@pytest.mark.parametrize("name", ["n_inner", "layer_norm_epsilon", "activation_function", "model_type"])
@pytest.mark.parametrize("value", [-1, 10**12, float("nan"), float("inf"), True, "x" * 10**5, [[]], {"a": 1}])
def test_settings_of_wrong_types_are_refused_in_one_line(source: Path, name: str, value: object) -> None:
    change_json(source / "config.json", **{name: value})
    refused(source)


TEXTS = {
    "empty": b"",
    "no JSON": b"{",
    "no text": b"\xff\xfe\x80",
    "nested": b"[" * 10**5 + b"]" * 10**5,
    "nested, in an object": b'{"model_type": ' + b"[" * 10**5 + b"]" * 10**5 + b"}",
    "nested as deep as can be": b'{"model_type": ' + b"[" * 900 + b"]" * 900 + b"}",
    "a list": b"[]",
    "a number": b"7",
    "a number without end": b'{"n_layer": ' + b"9" * 10**5 + b"}",
}


@pytest.mark.parametrize("content", TEXTS.values(), ids=list(TEXTS))
@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "model.safetensors.index.json"])
def test_json_that_is_not_an_object_is_refused(source: Path, name: str, content: bytes) -> None:
    if name.endswith("index.json"):
        (source / "model.safetensors").unlink()
    (source / name).write_bytes(content)
    refused(source)


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json"])
def test_json_of_many_megabytes_is_not_read(source: Path, name: str) -> None:
    change_json(source / name, comment=" " * (5 << 20))
    refused(source, name, f"bytes; at most {4 << 20} are read")


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_with_a_missing_file_is_refused(source: Path, missing: str) -> None:
    (source / missing).unlink()
    refused(source, missing)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none", "not a folder")


FILES = ("config.json", "preprocessor_config.json", "model.safetensors", "pytorch_model.bin")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), data=st.data())
def test_damage_is_refused_in_one_line_or_changes_weights(
    source: Path, name: str, data: st.DataObject
) -> None:
    """Bytes among the weights' own are other weights; those of a config may be another legal setting."""
    if name == "pytorch_model.bin":
        torch.save(load_file(source / "model.safetensors"), source / name)
        (source / "model.safetensors").rename(source.parent / "aside")
    whole = (source / name).read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[place] ^= data.draw(st.integers(1, 255))
    (source / name).write_bytes(damaged[:place] if data.draw(st.booleans()) else damaged)
    message = ""
    try:
        read_imagegpt(source)
    except ValueError as error:
        message = str(error)
    (source / name).write_bytes(whole)
    if name == "pytorch_model.bin":
        (source / name).unlink()
        (source.parent / "aside").rename(source / "model.safetensors")
    assert "\n" not in message
