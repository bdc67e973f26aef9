"""Laws of memory-saving steps: recomputed blocks and fixed numbers of visible positions change no number."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from isopix.core.random import generator
from isopix.objectives.base import PretrainModel, TrainingBatch
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig
from tests.laws import cases

DROPPING = [case for case in cases.masked() if case.objective.corruption.drops_tokens]


def num_visible(recipe: Recipe) -> int | None:
    return recipe.objective.num_visible(recipe.grid.positions, cases.codec(recipe).num_codes)


def gradients(model: PretrainModel, batch: TrainingBatch) -> list[Tensor]:
    """The loss and the gradient of every parameter."""
    loss = model(batch)
    return [loss, *torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)]


def calls(model: PretrainModel, run: Callable[[], object]) -> int:
    """How often the first block is called."""
    count = list[int]()
    hook = model.network.backbone.blocks[0].register_forward_pre_hook(lambda *_: count.append(1))
    run()
    hook.remove()
    return len(count)


@pytest.mark.parametrize("recipe", cases.CASES, ids=cases.title)
def test_recomputed_blocks_have_the_same_loss_and_gradients_bit_for_bit(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    batch = model.make_batch(cases.images(recipe), generator(0, "law"))
    expected = gradients(model, batch)
    model.network.backbone.recompute = True
    for one, other in zip(gradients(model, batch), expected, strict=True):
        assert torch.equal(one, other)


def test_blocks_are_recomputed_in_the_backward_pass_only_and_with_the_same_dropout() -> None:
    recipe = cases.transformers()[0]
    recipe = recipe.updated(block=replace(recipe.model.block, dropout=0.5))
    model = cases.busy_model(recipe).train()
    batch = model.make_batch(cases.images(recipe), generator(0, "law"))
    runs = []
    for recompute, expected in ((False, 1), (True, 2)):
        model.network.backbone.recompute = recompute
        torch.manual_seed(0)
        assert calls(model, lambda: runs.append(gradients(model, batch))) == expected
    assert all(torch.equal(*pair) for pair in zip(*runs, strict=True))
    with torch.no_grad():
        assert calls(model, lambda: model(batch)) == 1


def test_a_fixed_number_of_visible_positions_changes_no_bit() -> None:
    fixed = [case for case in DROPPING if num_visible(case) is not None]
    assert fixed
    assert len(fixed) < len(DROPPING)
    for recipe in fixed:
        model = cases.busy_model(recipe)
        batch = model.make_batch(cases.images(recipe), generator(0, "law"))
        backbone = model.network.backbone
        given = backbone(batch.inputs, batch.mask, num_visible(recipe))
        assert torch.equal(given, backbone(batch.inputs, batch.mask))


@pytest.mark.parametrize(
    ("chosen", "device", "triton", "path", "compiled"),
    [
        (None, "cpu", "found", "/torch/__init__.py", False),
        (None, "cuda", "found", "/torch/__init__.py", True),
        (True, "cpu", "found", "/torch/__init__.py", True),
        (False, "cuda", "found", "/torch/__init__.py", False),
        (None, "cuda", None, "/torch/__init__.py", False),
        (None, "cuda", "found", "/a b/torch/__init__.py", False),
    ],
)
def test_steps_are_compiled_on_gpus_whose_compiler_works_unless_the_settings_say_otherwise(
    chosen: bool | None,
    device: str,
    triton: str | None,
    path: str,
    compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isopix.core.device.find_spec", lambda name: triton)
    monkeypatch.setattr("torch.__file__", path)
    assert TrainConfig(compile=chosen).compiles_on(torch.device(device)) is compiled
