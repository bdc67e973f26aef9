"""Importing OpenAI's checkpoints: sizes from shapes, every variable accounted for, nothing guessed."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop.openai import read_checkpoint
from isopix.model.blocks.transformer import TransformerSpec
from isopix.objectives.objectives import Autoregressive, Masked
from tests.unit.interop import bundles, variables
from tests.unit.interop.bundles import refused

COLORS = torch.arange(21).view(7, 3).float()


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "model.ckpt-131000"


@pytest.mark.parametrize("start", [True, False])
def test_sizes_and_objective_are_inferred_from_the_shapes(prefix: Path, start: bool) -> None:
    bundles.write(prefix, variables.draw(start=start), shards=3)
    imported = read_checkpoint(prefix, COLORS)
    recipe = imported.recipe
    assert (recipe.model.depth, recipe.model.width, recipe.grid) == (2, 12, Grid(4, 4))
    assert recipe.model.block == TransformerSpec(heads=3)
    assert recipe.objective == (Autoregressive() if start else Masked())
    assert imported.codec.fingerprint() == Palette(COLORS, Grid(1, 1)).fingerprint()
    assert (imported.origin, imported.step) == ("OpenAI model.ckpt-131000", 131_000)


EXTRA = {
    "global_step": "step counter",
    "model/_step": "step counter",
    "beta1_power": "optimizer state",
    "beta2_power_1": "optimizer state",
    "model/wte/Adam": "optimizer state",
    "model/wte/Adam_1": "optimizer state",
    "adam_m/model/wpe": "optimizer state",
    "model/h0/ln_1/g/adam_v": "optimizer state",
    "model/wtet/AdamWeightDecayOptimizer_1": "optimizer state",
    "model/h9/clf/w": "classifier head",
}


@pytest.mark.parametrize("scope", ["", "model/", "tower_0/model/"])
def test_every_variable_is_reported_and_what_is_skipped_is_not_read(prefix: Path, scope: str) -> None:
    model = variables.draw(scope=scope)
    extra = {name: np.ones(3, np.int32) for name in EXTRA}
    bundles.layout(model | extra).with_place("model/h9/clf/w", crc=0).write(prefix)
    imported = read_checkpoint(prefix, COLORS)
    assert sorted(report.source for report in imported.tensor_reports) == sorted([*model, *EXTRA])
    assert {report.source: report.skipped for report in imported.tensor_reports if report.skipped} == EXTRA
    used = {name for report in imported.tensor_reports for name in report.target}
    assert used == imported.tensors.keys()


@pytest.mark.parametrize("heads", [1, 3])
def test_a_leading_dimension_of_one_is_dropped(prefix: Path, heads: int) -> None:
    model = variables.draw(heads=heads)
    bundles.write(prefix, {name: array[None] for name, array in model.items()})
    wide = read_checkpoint(prefix, COLORS)
    bundles.write(prefix, model)
    plain = read_checkpoint(prefix, COLORS)
    assert wide.recipe == plain.recipe
    assert plain.recipe.model.block == TransformerSpec(heads=heads)
    assert all(torch.equal(wide.tensors[name], plain.tensors[name]) for name in plain.tensors)


@pytest.mark.parametrize(("name", "step"), [("model.ckpt-7", 7), ("model.ckpt", 0), ("best-of-3-runs", 0)])
def test_step_is_in_the_name_or_unknown(tmp_path: Path, name: str, step: int) -> None:
    bundles.write(tmp_path / name, variables.draw())
    assert read_checkpoint(tmp_path / name, COLORS).step == step


def test_attention_stacks_query_key_and_value_with_heads_inside(prefix: Path) -> None:
    model = variables.draw()
    bundles.write(prefix, model)
    tensors = read_checkpoint(prefix, COLORS).tensors
    for part, name in enumerate("qkv"):
        theirs = model[f"model/h1/attn/{name}_proj"]
        for head, unit, channel in [(0, 0, 0), (1, 3, 5), (2, 1, 11)]:
            ours = tensors["backbone.blocks.1.attention.qkv.weight"][12 * part + 4 * head + unit, channel]
            assert float(ours) == theirs[head, unit, channel]
    back = tensors["backbone.blocks.1.attention.out.weight"][5, 4 * 2 + 3]
    assert float(back) == model["model/h1/attn/c_proj"][2, 3, 5]


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_precisions_become_float32(prefix: Path, kind: type) -> None:
    model = {name: array.astype(kind) for name, array in variables.draw().items()}
    bundles.write(prefix, model)
    head = read_checkpoint(prefix, COLORS).tensors["head.project.weight"]
    assert torch.equal(head, torch.from_numpy(model["model/wtet"].astype(np.float32)))


MODEL = variables.draw(depth=3)


@pytest.mark.parametrize("name", [name for name in MODEL if name != "model/sos"])
def test_a_missing_or_misshapen_variable_is_refused(prefix: Path, name: str) -> None:
    bundles.write(prefix, {other: array for other, array in MODEL.items() if other != name})
    refused(lambda: read_checkpoint(prefix, COLORS), str(prefix), name.removeprefix("model/"))
    longer = np.concatenate([MODEL[name], MODEL[name][-1:]])
    bundles.write(prefix, MODEL | {name: longer})
    refused(lambda: read_checkpoint(prefix, COLORS), str(prefix))


def test_other_models_are_refused_by_what_is_wrong(prefix: Path) -> None:
    ones = np.ones((7, 12), np.float32)
    for changes, words in (
        ({"model/extra": ones}, ["'model/extra' is not part of"]),
        ({"other/wte": ones}, ["2 variables 'wte'", "'model/'", "'other/'"]),
        ({"model/wte": ones[:6], "model/wtet": ones[:6]}, ["it has 6 colors; the palette has 7"]),
        ({"model/wte": ones * np.nan}, ["'model/wte' has elements that are not finite"]),
    ):
        bundles.write(prefix, MODEL | changes)
        refused(lambda: read_checkpoint(prefix, COLORS), str(prefix), *words)


def test_positions_without_a_square_need_a_grid(prefix: Path) -> None:
    bundles.write(prefix, variables.draw(positions=12))
    refused(lambda: read_checkpoint(prefix, COLORS), "12 positions are not a square")
    assert read_checkpoint(prefix, COLORS, grid=Grid(3, 4)).recipe.grid == Grid(3, 4)
