"""Memory of sampling."""

import pytest

from isopix.generate import memory
from isopix.probing.features import eval_batch_size
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


def test_fewer_images_are_predicted_at_a_time_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    network = cases.network(cases.masked()[0])
    fast = eval_batch_size(network.backbone)
    monkeypatch.setattr(memory, "free_memory", lambda device: 10**12)
    assert memory.images_per_forward(network) == fast
    found = []
    for free in (0, 10**6, 2 * 10**6):
        monkeypatch.setattr(memory, "free_memory", lambda device, free=free: free)
        found.append(memory.images_per_forward(network))
    assert found[0] == 1 < found[1] < found[2] < fast
