"""Importing OpenAI's checkpoints: sizes from shapes, every variable accounted for, nothing guessed."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop import imported_model as imports
from isopix.interop.name_tables import OPENAI_START, WeightMapping, openai_table
from isopix.interop.openai.convert import read_checkpoint
from isopix.model.blocks.transformer import TransformerSpec
from isopix.objectives.objectives import Autoregressive, Masked
from tests.unit.interop import bundles, variables
from tests.unit.interop.bundles import refused
from tests.unit.interop.variables import Variables

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
    "model/wtet/AdamWeightDecayOptimizer": "optimizer state",
    "model/wtet/AdamWeightDecayOptimizer_1": "optimizer state",
    "model/clf/w": "classifier head",
}


@pytest.mark.parametrize("start", [True, False])
def test_every_variable_is_reported(prefix: Path, start: bool) -> None:
    model = variables.draw(start=start)
    bundles.write(prefix, model | {name: np.ones(3, np.float32) for name in EXTRA})
    imported = read_checkpoint(prefix, COLORS)
    assert sorted(report.source for report in imported.tensor_reports) == sorted([*model, *EXTRA])
    assert {report.source: report.skipped for report in imported.tensor_reports if report.skipped} == EXTRA
    used = {name for report in imported.tensor_reports for name in report.target}
    assert used == imported.tensors.keys()


def test_too_many_variables_are_refused_before_anything_is_read(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "MAX_JSON", 2**13)
    slots = {f"model/h{n}/ln_1/g/AdamWeightDecayOptimizer_1": np.zeros(1, np.float32) for n in range(40)}
    bundles.layout(variables.draw() | slots, checksum=lambda raw: 0).write(prefix)
    refused(lambda: read_checkpoint(prefix, COLORS), str(prefix), "the list of tensors has")


def test_what_is_skipped_is_not_read(prefix: Path) -> None:
    """A classifier of integers that are damaged, too, is none of the model's business."""
    written = bundles.layout(variables.draw() | {"model/clf/w": np.ones(3, np.int32)})
    written.with_place("model/clf/w", crc=0).write(prefix)
    read_checkpoint(prefix, COLORS)


@pytest.mark.parametrize("scope", ["", "model/", "tower_0/model/"])
def test_any_single_scope_is_accepted(prefix: Path, scope: str) -> None:
    bundles.write(prefix, variables.draw(scope=scope))
    assert read_checkpoint(prefix, COLORS).tensor_reports[0].source == f"{scope}wte"


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


@pytest.mark.parametrize("row", [*openai_table(2), OPENAI_START], ids=lambda row: row.source[0])
def test_every_mapping_is_inverted(row: WeightMapping) -> None:
    model = variables.draw(heads=2, scope="")
    theirs = tuple(torch.from_numpy(model[name.format(1)]) for name in row.source)
    for one, other in zip(row.to_source(row.to_target(theirs)), theirs, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_precisions_become_float32(prefix: Path, kind: type) -> None:
    model = {name: array.astype(kind) for name, array in variables.draw().items()}
    bundles.write(prefix, model)
    head = read_checkpoint(prefix, COLORS).tensors["head.project.weight"]
    assert torch.equal(head, torch.from_numpy(model["model/wtet"].astype(np.float32)))


MODEL = variables.draw(depth=3)


def check_refused(prefix: Path, model: Variables, *words: str, grid: Grid | None = None) -> None:
    bundles.write(prefix, model)
    refused(lambda: read_checkpoint(prefix, COLORS, grid=grid), str(prefix), *words)


@pytest.mark.parametrize("name", [name for name in MODEL if name != "model/sos"])
def test_a_missing_variable_is_named(prefix: Path, name: str) -> None:
    rest = {other: array for other, array in MODEL.items() if other != name}
    check_refused(prefix, rest, name.removeprefix("model/"))


@pytest.mark.parametrize("name", MODEL)
def test_a_misshapen_variable_is_named(prefix: Path, name: str) -> None:
    """One that others are measured by is named by the first that does not agree with it."""
    longer = np.concatenate([MODEL[name], MODEL[name][-1:]])
    check_refused(prefix, MODEL | {name: longer}, *([] if name in SIZED_BY else [name, "shape"]))


SIZED_BY = ("model/wpe", "model/wte", "model/h0/attn/q_proj")


@pytest.mark.parametrize("name", MODEL)
def test_a_variable_of_other_dimensions_is_named(prefix: Path, name: str) -> None:
    check_refused(prefix, MODEL | {name: MODEL[name][..., None, None, None]}, name, "shape")


@pytest.mark.parametrize(
    "name",
    [
        "model/h0/attn/c_proj/b",
        "model/temperature",
        "other/wpe",
        "model/h01/ln_1/g",
        "model/clfs/w",
        "adam_mean",
    ],
)
def test_an_unknown_variable_is_named(prefix: Path, name: str) -> None:
    check_refused(prefix, MODEL | {name: np.ones(12, np.float32)}, repr(name), "unknown")


def test_a_missing_layer_is_named(prefix: Path) -> None:
    holed = {name: array for name, array in MODEL.items() if "/h1/" not in name}
    check_refused(prefix, holed, "layer 1 is missing", "the last layer is 2")


def test_a_palette_of_another_size_is_refused(prefix: Path) -> None:
    bundles.write(prefix, MODEL)
    refused(lambda: read_checkpoint(prefix, COLORS[:5]), str(prefix), "has 7 colors; the palette has 5")


def test_positions_that_are_not_a_square_need_a_grid(prefix: Path) -> None:
    check_refused(
        prefix, variables.draw(positions=15), "15 positions are not a square; give --rows and --cols"
    )
    assert read_checkpoint(prefix, COLORS, grid=Grid(3, 5)).recipe.grid == Grid(3, 5)


def test_a_grid_of_other_positions_is_refused(prefix: Path) -> None:
    check_refused(prefix, MODEL, "16 positions; a grid of 3 x 5 has 15", grid=Grid(3, 5))


def test_two_models_in_one_checkpoint_are_refused(prefix: Path) -> None:
    check_refused(prefix, MODEL | variables.draw(scope="ema/"), "2 variables 'wte'", "'ema/', 'model/'")


def test_a_checkpoint_of_another_model_is_refused(prefix: Path) -> None:
    check_refused(prefix, {"dense/kernel": np.ones((2, 2), np.float32)}, "0 variables 'wte'")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(prefix: Path, value: float) -> None:
    broken = np.where(np.arange(12) == 5, value, MODEL["model/h2/ln_2/g"]).astype(np.float32)
    check_refused(prefix, MODEL | {"model/h2/ln_2/g": broken}, "model/h2/ln_2/g", "not finite")


def test_integer_weights_are_refused(prefix: Path) -> None:
    check_refused(prefix, MODEL | {"model/ln_f/g": np.ones(12, np.int32)}, "model/ln_f/g", "int32")


def test_a_model_without_heads_is_refused(prefix: Path) -> None:
    check_refused(prefix, MODEL | {"model/h0/attn/q_proj": np.ones((0, 4, 12), np.float32)}, "0 heads")


def test_damage_is_named_once_with_its_shard(prefix: Path) -> None:
    bundles.layout(MODEL).with_place("model/wpe", crc=0).write(prefix)
    with pytest.raises(ValueError, match=r"^checkpoint shard .*00001: tensor 'model/wpe' is damaged"):
        read_checkpoint(prefix, COLORS)
