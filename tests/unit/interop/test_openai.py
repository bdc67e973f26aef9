"""OpenAI's checkpoints: sizes from shapes, every variable accounted for, damage detected."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop.openai import find_prefix, open_checkpoint, read_checkpoint
from isopix.model.blocks.transformer import TransformerSpec
from isopix.objectives.objectives import Autoregressive, Masked
from tests.unit.data.refusal import refusal
from tests.unit.interop import bundles

COLORS = torch.arange(21).view(7, 3).float()
MODEL = bundles.variables(depth=3)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "model.ckpt-131000"


@pytest.mark.parametrize("start", [True, False])
def test_sizes_and_objective_are_inferred_from_the_shapes(prefix: Path, start: bool) -> None:
    bundles.write(prefix, bundles.variables(start=start), shards=3)
    imported = read_checkpoint(prefix, COLORS)
    recipe = imported.recipe
    assert (recipe.model.depth, recipe.model.width, recipe.grid) == (2, 12, Grid(4, 4))
    assert recipe.model.block == TransformerSpec(heads=3)
    assert recipe.objective == (Autoregressive() if start else Masked())
    assert imported.codec.fingerprint() == Palette(COLORS, Grid(1, 1)).fingerprint()
    assert (imported.origin, imported.step) == ("OpenAI model.ckpt-131000", 131_000)
    bundles.write(prefix.with_name("best-of-3-runs"), bundles.variables())
    assert read_checkpoint(prefix.with_name("best-of-3-runs"), COLORS).step == 0
    assert "palette is missing" in refusal(read_checkpoint, prefix, None)


EXTRA = {
    "global_step": "step counter",
    "beta1_power": "optimizer state",
    "model/wte/Adam_1": "optimizer state",
    "adam_m/model/wpe": "optimizer state",
    "model/h0/ln_1/g/adam_v": "optimizer state",
    "model/wtet/AdamWeightDecayOptimizer_1": "optimizer state",
    "model/h9/clf/w": "classifier head",
}


def test_every_variable_is_reported_and_what_is_skipped_is_not_read(prefix: Path) -> None:
    extra = {name: np.ones(3, np.int32) for name in EXTRA}
    damaged = {"model/h9/clf/w": {bundles.CRC: bytes(4)}}
    bundles.write(prefix, bundles.variables() | extra, changes=damaged)
    imported = read_checkpoint(prefix, COLORS)
    assert imported.skipped == EXTRA


@pytest.mark.parametrize("heads", [1, 3])
def test_a_leading_dimension_of_one_is_dropped(prefix: Path, heads: int) -> None:
    model = bundles.variables(heads=heads)
    bundles.write(prefix, {name: array[None] for name, array in model.items()})
    wide = read_checkpoint(prefix, COLORS)
    bundles.write(prefix, model)
    plain = read_checkpoint(prefix, COLORS)
    assert wide.recipe == plain.recipe
    assert plain.recipe.model.block == TransformerSpec(heads=heads)
    assert all(torch.equal(wide.tensors[name], plain.tensors[name]) for name in plain.tensors)


@pytest.mark.parametrize("name", ["model/wte", "model/h1/attn/q_proj"])
def test_a_missing_or_misshapen_variable_is_refused(prefix: Path, name: str) -> None:
    bundles.write(prefix, {other: array for other, array in MODEL.items() if other != name})
    assert name.removeprefix("model/") in refusal(read_checkpoint, prefix, COLORS)
    bundles.write(prefix, MODEL | {name: np.concatenate([MODEL[name], MODEL[name][-1:]])})
    refusal(read_checkpoint, prefix, COLORS)


ONES = np.ones((7, 12), np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"other/wte": ONES}, "tensor 'other/wte' is not part of a supported model of OpenAI"),
        ({"model/wte": ONES[:6], "model/wtet": ONES[:6]}, "it has 6 colors; the palette has 7"),
        ({"model/wte": ONES * np.nan}, "'model/wte' has elements that are not finite"),
    ],
)
def test_other_models_are_refused_by_what_is_wrong(
    prefix: Path, changes: dict[str, np.ndarray], message: str
) -> None:
    bundles.write(prefix, MODEL | changes)
    assert message in refusal(read_checkpoint, prefix, COLORS)


def test_images_are_square(prefix: Path) -> None:
    bundles.write(prefix, bundles.variables(positions=12))
    assert "its 12 positions are no square" in refusal(read_checkpoint, prefix, COLORS)


NAMES = [f"model/h{layer}/{part}" for layer in range(3) for part in ("ln_1/g", "mlp/c_fc/w", "mlp/c_proj/w")]
TENSORS = {name: np.full((2, n + 1), n / 7, np.float32) for n, name in enumerate(NAMES)}


def test_arrays_of_every_shape_are_read(prefix: Path) -> None:
    draw = np.random.default_rng(0)
    shapes: list[tuple[int, ...]] = [(), (0,), (3, 2)]
    values = {f"a{n}": draw.random(shape, np.float32) for n, shape in enumerate(shapes)}
    bundles.write(prefix, values, shards=2)
    found = open_checkpoint(prefix)
    for name, array in values.items():
        np.testing.assert_array_equal(found.read(name).numpy(), array, strict=True)


@pytest.mark.parametrize("given", ["model.ckpt-131000", "model.ckpt-131000.index", ""])
def test_a_prefix_an_index_and_a_folder_are_accepted(prefix: Path, given: str) -> None:
    bundles.write(prefix, TENSORS)
    assert find_prefix(prefix.parent / given) == prefix


def test_no_checkpoint_and_several_are_refused(prefix: Path) -> None:
    assert "does not exist; give the PREFIX" in refusal(find_prefix, prefix)
    for name in (prefix.name, "other"):
        bundles.write(prefix.with_name(name), TENSORS)
    line = refusal(find_prefix, prefix.parent)
    assert "holds 2 checkpoints (model.ckpt-131000.index, other.index)" in line


def values(prefix: Path) -> dict[str, np.ndarray]:
    found = open_checkpoint(prefix)
    return {name: found.read(name).numpy() for name in found.shapes}


@pytest.mark.parametrize("damaged", ["index", "shard"])
def test_every_flipped_byte_is_detected_or_harmless(prefix: Path, damaged: str) -> None:
    bundles.write(prefix, TENSORS, shards=2)
    file = bundles.index_of(prefix) if damaged == "index" else bundles.shard_of(prefix, 0, 2)
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            found = values(prefix)
        except ValueError:
            continue
        assert damaged == "index", "every byte of a shard is of a tensor"
        np.testing.assert_equal(found, TENSORS)


def test_a_missing_and_a_truncated_shard_are_refused(prefix: Path) -> None:
    bundles.write(prefix, TENSORS, shards=2)
    bundle, shard = open_checkpoint(prefix), bundles.shard_of(prefix, 0, 2)
    shard.write_bytes(shard.read_bytes()[:-1])
    assert f"{shard}: tensor '{NAMES[-1]}' is damaged" in refusal(bundle.read, NAMES[-1])
    shard.unlink()
    assert str(shard) in refusal(bundle.read, NAMES[-1], kind=FileNotFoundError)


def test_what_is_not_supported_is_refused_by_name(prefix: Path) -> None:
    first = NAMES[0]
    bundles.write(prefix, TENSORS, changes={first: {bundles.DTYPE: 7}})
    assert f"'{first}' has TensorFlow's type 7" in refusal(open_checkpoint(prefix).read, first)
    bundles.write(prefix, TENSORS, big_endian=True)
    assert "it is big-endian" in refusal(open_checkpoint, prefix)
