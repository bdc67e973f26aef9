"""Plans of recipes on clusters: what fits, with how many chunks, and which is recommended."""

import pytest
from isopix.analysis.cluster import parse_cluster
from isopix.recipes.parallel_plan import fastest, remedies

from isopix.recipes import registry
from isopix.recipes.cost import WARN_ABOVE
from isopix.recipes.plan_result import ParallelPlan
from isopix.recipes.recipe import Recipe
from isopix.recipes.sharding_memory import parallel_plans, training_work

GB = 10**9


@pytest.fixture(scope="module")
def tiny() -> Recipe:
    return registry.resolve("igpt.tiny", assignments=["depth=4", "batch_size=32"]).recipe


def plans(recipe: Recipe, text: str, memory: int | None = None) -> list[ParallelPlan]:
    cluster = parse_cluster(text, recipe.train.gpu_precision)
    if memory is not None:
        cluster = cluster._replace(memory=memory)
    return parallel_plans(recipe, [cluster])[0]


def test_every_strategy_has_a_plan(tiny: Recipe) -> None:
    found = plans(tiny, "8xH100")
    assert [each.name for each in found] == ["ddp", "ddp, recompute", "fsdp", "fsdp, recompute"]
    assert [each.settings for each in found] == [
        [],
        ["recompute=true"],
        ["parallel=fsdp"],
        ["parallel=fsdp", "recompute=true"],
    ]
    assert [each.name for each in plans(tiny, "1xH100")] == ["one device", "one device, recompute"]


def test_the_batch_is_split_until_it_fits(tiny: Recipe) -> None:
    """The next smaller number of chunks does not fit, and all images of the batch are computed."""
    whole = plans(tiny, "2xH100")
    assert [each.accumulate for each in whole] == [1] * 4
    for plan in whole:
        memory = round(0.9 * plan.memory.total / WARN_ABOVE)
        found = next(each for each in plans(tiny, "2xH100", memory) if each.name == plan.name)
        assert found.accumulate > 1
        assert found.micro_batch * found.accumulate * 2 == 32
        assert found.memory.total <= found.memory_limit == round(WARN_ABOVE * memory)
        assert found.memory.total < plan.memory.total


def test_a_given_number_of_chunks_is_kept(tiny: Recipe) -> None:
    found = plans(tiny.updated(accumulate=4), "2xH100")
    assert {(each.micro_batch, each.accumulate) for each in found} == {(4, 4)}


def test_what_does_not_fit_is_named_with_what_does(tiny: Recipe) -> None:
    """16 bytes a weight, and no room for more than their shards."""
    wide = tiny.updated(width=1024)
    weights = 16 * sum(unit.numel for unit in training_work(wide, recompute=False).units)
    found = plans(wide, "8xH100", weights)
    assert [each.fits for each in found][:2] == [False, False]
    assert [each.micro_batch for each in found][:2] == [1, 1]
    best = fastest(found)
    assert best is not None
    assert best.strategy == "fsdp"
    assert " ".join(best.settings) in remedies(found[0], found)
    assert remedies(found[0], found)[-1] == "8xV100 16GB"  # the smallest device that is known
    nothing = plans(tiny, "1xH100", 1000)
    assert fastest(nothing) is None
    assert remedies(nothing[0], nothing) == ["1xV100 16GB"]


def test_hours_are_those_of_all_steps(tiny: Recipe) -> None:
    for each in plans(tiny, "8xH100"):
        assert each.hours * 3600 == pytest.approx(tiny.train.steps * each.time.total)
        assert each.device_hours == pytest.approx(8 * each.hours)
        assert 0 < each.efficiency <= 1


def test_recomputed_blocks_take_less_memory_and_more_time(tiny: Recipe) -> None:
    plain, again = plans(tiny, "1xH100")
    assert again.memory.activations < plain.memory.activations
    assert again.memory.copies == plain.memory.copies
    assert again.time.compute > plain.time.compute
    assert plain.efficiency == 1 > again.efficiency


def test_a_batch_that_cannot_be_split_is_refused_with_the_numbers_that_can(tiny: Recipe) -> None:
    told = (
        "6xH100: batch_size 32 is not a multiple of 6 processes; allowed numbers of devices: 1, 2, 4, 8, 16, "
    )
    with pytest.raises(ValueError, match=f"^{told}32$"):
        plans(tiny, "6xH100")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("igpt.l", 1_362_250_752),
        pytest.param("igpt.xl", 6_810_875_904, marks=pytest.mark.integration),
    ],
)
def test_the_papers_networks(name: str, parameters: int) -> None:
    """Without FSDP, XL fits no device with 80 GB; with it, its weights, gradients and moments take 16 bytes
    each, divided by 64.
    """
    recipe = registry.find(name)
    ddp, _, fsdp, _ = plans(recipe, "64xH100")
    assert ddp.memory.weights == 4 * parameters
    assert ddp.fits == (name == "igpt.l")
    assert fsdp.fits
    state = fsdp.memory.weights + fsdp.memory.gradients + fsdp.memory.optimizer
    assert state == pytest.approx(16 * parameters / 64, rel=0.01)
