"""Training that cannot fit into memory is refused before it starts, with what fits; no other is."""

import pytest

from isopix.recipes import registry
from isopix.recipes.cost import check_memory, recipe_cost, recipe_memory
from isopix.recipes.recipe import Recipe

GIB = 2**30


def _recipe(*settings: str) -> Recipe:
    return registry.resolve("igpt.tiny", assignments=settings).recipe


def _refusal(*settings: str, gib: int = 8) -> str:
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        check_memory(_recipe(*settings), total=gib * GIB, free=gib * GIB)
    return str(caught.value)


def test_a_batch_that_cannot_fit_is_refused_with_the_one_that_does() -> None:
    message = _refusal("batch_size=1000000000")
    assert message.startswith("training needs about ")
    size = int(message.split("batch_size=")[1].split()[0])
    chunks = int(message.split("accumulate=")[1])
    memory = recipe_memory(_recipe())
    assert memory.step_bytes(size) <= 0.8 * 8 * GIB < memory.step_bytes(size + 1)
    assert 10**9 % chunks == 0
    assert memory.step_bytes(10**9 // chunks) <= 0.8 * 8 * GIB
    assert check_memory(_recipe(f"batch_size={size}"), total=8 * GIB, free=8 * GIB) == ""
    at_once = _recipe("batch_size=1000000000", f"accumulate={chunks}")
    assert check_memory(at_once, total=8 * GIB, free=8 * GIB) == ""


@pytest.mark.parametrize("setting", ["width=65536", "width=40000"])
def test_a_network_that_cannot_fit_is_refused_before_it_is_built(setting: str) -> None:
    message = _refusal(setting)
    assert message.endswith(("a smaller depth or width is needed", "is too large for any memory"))


def test_the_estimate_for_a_depth_is_that_of_the_whole_network() -> None:
    recipe = _recipe("depth=7", "batch_size=64")
    needed = recipe_memory(recipe).step_bytes(64)
    with pytest.raises(ValueError, match=rf"needs about {needed / GIB:,.1f} GiB"):
        check_memory(recipe, total=needed - 1, free=needed)
    assert check_memory(recipe, total=needed, free=needed).startswith("training needs about")
    assert check_memory(recipe, total=needed, free=2 * needed) == ""


def test_only_what_the_device_has_in_total_is_a_limit() -> None:
    recipe = _recipe("batch_size=256")
    warning = check_memory(recipe, total=64 * GIB, free=GIB)
    assert "1.0 GiB are available; if it fails: batch_size=" in warning


def test_small_recipes_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isopix.recipes.cost.recipe_memory", None)
    assert check_memory(_recipe("batch_size=4", "data.size=8"), total=8 * GIB, free=8 * GIB) == ""


def test_recomputed_blocks_cost_one_more_forward_pass_of_the_blocks() -> None:
    plain, again = (
        recipe_cost(registry.resolve("igpt.tiny", assignments=[f"train.recompute={given}"]).recipe)
        for given in ("false", "true")
    )
    positions, width, keys = 1024, 128, (1024 + 1) / 2
    block = positions * (24 * width**2 + 4 * keys * width)
    assert again.training_flops - plain.training_flops == int(4 * block)
    assert again.forward_flops == plain.forward_flops
