"""Memory of sampling."""

import pytest

from isopix.generate import memory
from isopix.recipes.recipe import Recipe
from tests.laws import cases


@pytest.mark.parametrize("recipe", cases.autoregressive(), ids=cases.title)
def test_cache_bytes_are_what_an_image_takes(recipe: Recipe) -> None:
    """Against the caches of three images after the last position."""
    network = cases.network(recipe)
    backbone, images = network.backbone, cases.images(recipe, 3)
    caches = backbone.new_caches()
    backbone.decode_step(backbone.embed(network.inputs_of(images)), caches)
    held = sum(buffer.all_rows.nbytes for cache in caches for buffer in (cache.first, cache.second))
    assert memory.cache_bytes(network, "fp32") == held // 3 > 0


def test_images_at_once_fill_half_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    network = cases.network(cases.autoregressive()[0])
    each = memory.cache_bytes(network, "fp32")
    for free, expected in ((20 * each, 10), (7 * each, 3), (0, 1)):
        monkeypatch.setattr(memory, "free_memory", lambda device, free=free: free)
        assert memory.images_at_once(network, "fp32") == expected


def test_keys_and_values_in_bf16_take_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = next(case for case in cases.autoregressive() if case.model.block.kind == "transformer")
    network = cases.network(recipe)
    each = memory.cache_bytes(network, "fp32")
    assert memory.cache_bytes(network, "bf16") == each // 2
    monkeypatch.setattr(memory, "free_memory", lambda device: 20 * each)
    assert [memory.images_at_once(network, precision) for precision in ("fp32", "bf16")] == [10, 20]
