"""What an ImageGPT must be for ours to compute alike; anything else is refused by its name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop.huggingface.convert import read_imagegpt
from isopix.interop.huggingface.imagegpt import check_tensors, expected_shapes, parse_config
from tests.unit.data.refusal import refusal
from tests.unit.interop import models
from tests.unit.interop.models import change_json, change_weights, folder, network

HEAD, FC = "lm_head.weight", "transformer.h.0.mlp.c_fc"


SETTINGS = {
    "another model": ({"model_type": "gpt2"}, "model_type is 'gpt2'"),
    "another activation": ({"activation_function": "relu"}, "activation_function is 'relu'"),
    "unscaled attention": ({"scale_attn_weights": False}, "scale_attn_weights is False"),
    "attention scaled by layer": (
        {"scale_attn_by_inverse_layer_idx": True},
        "scale_attn_by_inverse_layer_idx",
    ),
    "cross-attention": ({"add_cross_attention": True}, "add_cross_attention is True"),
    "tied tables": ({"tie_word_embeddings": True}, "tie_word_embeddings is True"),
    "hidden layer": ({"n_inner": 33}, "n_inner is 33; it must be a multiple of n_embd 16"),
    "heads": ({"n_head": 3}, "n_embd 16 is not a multiple of n_head 3"),
    "layers": ({"n_layer": 3}, "n_layer is 3; the weights have 2 layers"),
    "width": ({"n_embd": 32}, "has shape"),
    "positions": ({"n_positions": 49}, "tensor 'transformer.wpe.weight' has shape (48, 16)"),
    "no number": ({"n_layer": "2"}, "n_layer is '2'; it must be an integer"),
    "palette": ({"vocab_size": 34}, "the palette has 32 colors; vocab_size 34 means 33 colors"),
    "norm": ({"layer_norm_epsilon": 0}, "layer_norm_epsilon is 0"),
}


@pytest.mark.parametrize(("values", "message"), SETTINGS.values(), ids=list(SETTINGS))
def test_unsupported_settings_are_refused_by_name(source: Path, values: dict[str, Any], message: str) -> None:
    change_json(source / "config.json", **values)
    assert message in refusal(read_imagegpt, source)


def keep(tensors: models.Tensors, *, but: str, new: dict[str, torch.Tensor] | None = None) -> None:
    tensors.pop(but)
    tensors |= new or {}


WEIGHTS = {
    "bias": (lambda t: t[f"{FC}.bias"][3:4].add_(1e-8), f"tensor '{FC}.bias' is a bias that is not zero"),
    "shape": (lambda t: keep(t, but=HEAD, new={HEAD: torch.ones(3, 3)}), f"tensor '{HEAD}' has shape (3, 3)"),
    "bias's shape": (
        lambda t: t.update({f"{FC}.bias": torch.zeros(3)}),
        f"tensor '{FC}.bias' has shape (3,); this model needs (64,)",
    ),
    "missing": (lambda t: keep(t, but=f"{FC}.weight"), f"tensor '{FC}.weight' is missing"),
    "unknown": (lambda t: t.update(extra=torch.ones(1)), "tensor 'extra' is not part of"),
    "base model": (lambda t: keep(t, but=HEAD), "this is a base model without lm_head.weight"),
    "classifier": (
        lambda t: keep(t, but=HEAD, new={"score.weight": torch.ones(10, 16)}),
        "this is a classifier without lm_head.weight",
    ),
    "twice": (
        lambda t: t.update({"ln_f.weight": torch.ones(16)}),
        "tensors 'ln_f.weight' and 'transformer.ln_f.weight' are the same tensor",
    ),
    "integers": (lambda t: t.update({HEAD: t[HEAD].long()}), f"tensor '{HEAD}' has dtype torch.int64"),
    "not finite": (
        lambda t: t[HEAD].fill_(float("nan")),
        f"tensor '{HEAD}' has elements that are not finite",
    ),
    "too large": (
        lambda t: t.update({HEAD: t[HEAD].double() * 1e300}),
        f"tensor '{HEAD}' has elements that are not finite",
    ),
    "layer beyond": (
        lambda t: t.update({"transformer.h.2.ln_1.weight": torch.ones(16)}),
        "n_layer is 2; the weights have 3 layers",
    ),
}


@pytest.mark.parametrize(("change", "message"), WEIGHTS.values(), ids=list(WEIGHTS))
def test_unsupported_weights_are_refused_by_name(
    source: Path, change: Callable[[models.Tensors], Any], message: str
) -> None:
    change_weights(source, change)
    assert message in refusal(read_imagegpt, source)


def test_shapes_are_checked_before_anything_is_read(source: Path) -> None:
    config = parse_config(json.loads((source / "config.json").read_text()))
    stored = expected_shapes(config)
    assert check_tensors(stored, config).shapes == stored
    for name in stored:
        assert f"'{name}' has shape (9, 9)" in refusal(check_tensors, stored | {name: (9, 9)}, config)


def test_a_size_that_fits_is_the_grid(tmp_path: Path) -> None:
    source = folder(tmp_path / "a", network("data.cols=8"))
    change_json(source / "preprocessor_config.json", size={"height": 4, "width": 16})
    assert read_imagegpt(source).recipe.grid == Grid(4, 16)


@pytest.mark.parametrize("size", [{"height": 256, "width": 256}, 32, None])
def test_a_size_that_does_not_fit_leaves_a_square(tmp_path: Path, size: object) -> None:
    source = folder(tmp_path / "a", network("data.cols=8"))
    change_json(source / "preprocessor_config.json", size=size)
    assert read_imagegpt(source).recipe.grid == Grid(8, 8)


def test_positions_without_a_known_grid_are_refused(source: Path) -> None:
    change_json(source / "preprocessor_config.json", size=None)
    assert "its 48 positions are not a square" in refusal(read_imagegpt, source)


def test_a_grid_can_be_given(source: Path) -> None:
    change_json(source / "preprocessor_config.json", size=None)
    assert "its 48 positions are not a square" in (line := refusal(read_imagegpt, source))
    assert line.endswith("give --rows and --cols")
    assert read_imagegpt(source, grid=Grid(4, 12)).recipe.grid == Grid(4, 12)
    assert "48 positions; a grid of 5 x 9 has 45" in refusal(lambda: read_imagegpt(source, grid=Grid(5, 9)))


def test_a_missing_head_is_refused_before_a_missing_palette(source: Path) -> None:
    (source / "preprocessor_config.json").unlink()
    change_weights(source, lambda tensors: tensors.pop(HEAD))
    assert "this is a base model without lm_head.weight" in refusal(read_imagegpt, source)


def test_a_palette_can_be_given(tmp_path: Path) -> None:
    source = folder(tmp_path / "a", network("data.cols=8"))
    (source / "preprocessor_config.json").unlink()
    told = "preprocessor_config.json with clusters is missing; give a palette file (--palette)"
    assert told in refusal(read_imagegpt, source)
    given = models.palette().flip(0)
    found = read_imagegpt(source, given)
    assert found.codec.fingerprint() == Palette(given, found.recipe.grid).fingerprint()
    assert "the palette has 31 colors" in refusal(read_imagegpt, source, given[1:])


@pytest.mark.parametrize(
    "clusters", [[], [[0, 0]], [[0, 0, 1.01]], [[0, 0, "1"]], {"a": 1}, [[0, 0, None]], "x"]
)
def test_invalid_clusters_are_refused(source: Path, clusters: object) -> None:
    change_json(source / "preprocessor_config.json", clusters=clusters)
    assert "are not a list of colors, three numbers from -1 to 1 each" in refusal(read_imagegpt, source)
