"""ImageGPT folders in and out: nothing is lost, nothing half written, and what ours cannot be is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop.imagegpt import export_imagegpt, read_imagegpt
from tests.unit.data.refusal import refusal
from tests.unit.interop import models
from tests.unit.interop.models import HEAD, change_json, change_weights, folder, load_file, network, revived

FC = "transformer.h.0.mlp.c_fc"
EVERY = ["block.heads=4", "width=24", "block.mlp.expansion=2", "block.mlp.activation=gelu"]


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize(
    "words", [[], [*EVERY, "block.norm.epsilon=1e-6"], ["depth=1", "data.rows=4", "data.cols=9"]]
)
def test_export_and_import_are_inverse(tmp_path: Path, words: list[str]) -> None:
    net = network(*words)
    again = revived(read_imagegpt(folder(tmp_path / "a", net)))
    assert again.tensors().keys() == net.tensors().keys()
    assert all(torch.equal(again.tensors()[name], tensor) for name, tensor in net.tensors().items())
    assert again.codec.fingerprint() == net.codec.fingerprint()
    assert files(folder(tmp_path / "b", again)) == files(tmp_path / "a")


def test_any_palette_is_kept_to_the_resolution_of_the_codec(tmp_path: Path) -> None:
    clusters = torch.rand(models.COLORS, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    theirs = folder(tmp_path / "a")
    change_json(theirs / "preprocessor_config.json", clusters=clusters.tolist())
    net = revived(read_imagegpt(theirs))
    processor = export_imagegpt(net).files["preprocessor_config.json"]
    written = torch.tensor(processor["clusters"], dtype=torch.float64)
    assert (written - clusters).abs().max() <= 1 / 131072 / 127.5
    assert revived(read_imagegpt(folder(tmp_path / "b", net))).codec.fingerprint() == net.codec.fingerprint()


@pytest.mark.parametrize("prefix", [True, False])
def test_every_tensor_is_reported(source: Path, prefix: bool) -> None:
    def change(tensors: models.Tensors) -> None:
        tensors["transformer.h.1.attn.bias"] = torch.ones(1, 1, 48, 48, dtype=torch.uint8).tril()
        tensors["transformer.h.1.attn.masked_bias"] = torch.tensor(-1e4)
        for name in [] if prefix else list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)

    plain = read_imagegpt(source)
    change_weights(source, change)
    imported = read_imagegpt(source)
    assert all(torch.equal(imported.tensors[name], tensor) for name, tensor in plain.tensors.items())
    assert imported.skipped.keys() < load_file(source / "model.safetensors").keys()
    assert {*imported.skipped.values()} == {"zero bias", "causal mask"}


def test_a_file_without_biases_is_one_whose_biases_are_zero(source: Path, tmp_path: Path) -> None:
    change_weights(source, lambda tensors: [tensors.pop(name) for name in list(tensors) if "bias" in name])
    assert read_imagegpt(source).tensors.keys() == read_imagegpt(folder(tmp_path / "b")).tensors.keys()


def replaced(name: str, tensor: torch.Tensor | None = None) -> Callable[[models.Tensors], Any]:
    """A change that sets one tensor, or deletes it."""
    return lambda tensors: tensors.pop(name) if tensor is None else tensors.update({name: tensor})


# Each would compute something else here: changes of the config, and of the weights.
REFUSED: list[tuple[dict[str, Any], Callable[[models.Tensors], Any] | None, str]] = [
    ({"activation_function": "relu"}, None, "activation_function is 'relu'"),
    ({"n_inner": 33}, None, "width 33, which is not a multiple of 16"),
    ({"n_layer": 1}, None, "'transformer.h.1."),
    ({"n_positions": 49}, None, "tensor 'wpe.weight' has shape (48, 16)"),
    ({"vocab_size": 34}, None, "the palette has 32 colors; vocab_size 34 means 33 colors"),
    ({}, lambda t: t[f"{FC}.bias"][3:4].add_(1e-8), f"tensor '{FC}.bias' is a bias that is not zero"),
    ({}, replaced("extra", torch.ones(1)), "tensor 'extra' is not part of"),
    ({}, replaced(HEAD), "this is a base model without lm_head.weight"),
    ({}, replaced("ln_f.weight", torch.ones(16)), "'ln_f.weight' is there with and without"),
    ({}, lambda t: t.update({HEAD: t[HEAD].double() * 1e300}), "elements that are not finite"),
]


@pytest.mark.parametrize(("values", "change", "message"), REFUSED)
def test_other_models_are_refused_by_what_differs(
    source: Path, values: dict[str, Any], change: Callable[[models.Tensors], Any] | None, message: str
) -> None:
    change_json(source / "config.json", **values)
    if change:
        change_weights(source, change)
    assert message in refusal(read_imagegpt, source)


@pytest.mark.parametrize(
    ("size", "grid"),
    [
        ({"height": 4, "width": 16}, Grid(4, 16)),
        ({"height": 256, "width": 256}, Grid(8, 8)),
        (32, Grid(8, 8)),
    ],
)
def test_the_grid_is_a_size_that_fits_or_a_square(tmp_path: Path, size: object, grid: Grid) -> None:
    source = folder(tmp_path / "a", network("data.cols=8"))
    change_json(source / "preprocessor_config.json", size=size)
    assert read_imagegpt(source).recipe.grid == grid


def test_positions_without_a_size_are_a_square(source: Path) -> None:
    change_json(source / "preprocessor_config.json", size=None)
    assert "its 48 positions are no square" in refusal(read_imagegpt, source)


def test_a_palette_can_be_given(tmp_path: Path) -> None:
    source = folder(tmp_path / "a", network("data.cols=8"))
    change_json(source / "preprocessor_config.json", clusters=[[0, 0, 1.01]])
    assert "clusters" in refusal(read_imagegpt, source)
    (source / "preprocessor_config.json").unlink()
    assert "with clusters is missing; give a palette file (--palette)" in refusal(read_imagegpt, source)
    given = models.palette().flip(0)
    found = read_imagegpt(source, given)
    assert found.codec.fingerprint() == Palette(given, found.recipe.grid).fingerprint()
    assert "the palette has 31 colors" in refusal(read_imagegpt, source, given[1:])


def test_networks_that_imagegpt_cannot_represent_are_refused_by_name() -> None:
    for net, message in (
        (network(name="igpt.digits_bert"), "masked model"),
        (network("block.norm.kind=layer_norm"), "norm1.bias' has no place in"),
        (network("block.qk_norm_scale=0.1"), "no norm of queries and keys"),
        (network("attention_rows=2"), "no windows"),
        (network("block.mlp.activation=relu_squared"), "of activations quick_gelu"),
    ):
        assert message in refusal(export_imagegpt, net)


def test_only_an_empty_folder_is_filled(tmp_path: Path) -> None:
    names = {"README.md", "config.json", "model.safetensors", "preprocessor_config.json"}
    assert set(files(folder(tmp_path))) == names
    before = files(tmp_path)
    assert "is not empty; choose another --out" in refusal(folder, tmp_path)
    assert files(tmp_path) == before
