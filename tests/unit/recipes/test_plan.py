"""`isopix plan`: memory of several devices, by hand for a network of eleven weights, and what fits."""

from pathlib import Path

import pytest

import isopix
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost
from isopix.recipes.results import DeviceMemory, PlanResult, TrainingMemory
from isopix.recipes.sharding_memory import (
    TrainingWork,
    device_memory,
    optimizer_bytes,
    parallel_plans,
    sharding_units,
)
from isopix.train.config import TrainConfig
from isopix.train.optim import SGD, Adam

# Outside of blocks [3, 1], 3 weights; one block of [2, 4], 8 weights. Batches of 8 images.
UNITS = (((3, 1),), ((2, 4),))
WORK = TrainingWork(UNITS, TrainingMemory(0, 22, 50), TrainConfig(batch_size=8, optimizer=Adam()))


def test_memory_of_ddp() -> None:
    """44 bytes of weights, as many gradients, twice as many moments, and Adam's number of steps of two
    tensors; 2 images at a time of 50 bytes.
    """
    assert device_memory(WORK, "ddp", 2, accumulate=2) == DeviceMemory(44, 44, 88 + 8, 22, 2 * 50)


def test_memory_of_fsdp() -> None:
    """The larger half of 3 rows is 2, of 2 rows 1: 2 + 4 weights. Gathered in 2 bytes: 3 weights, and 8
    twice; summed: gradients of 8 weights in 2 bytes, and twice in 4.
    """
    copies = 2 * (3 + 16) + 2 * 8 + 8 * 8
    assert device_memory(WORK, "fsdp", 2, accumulate=1) == DeviceMemory(24, 24, 48 + 8, copies, 4 * 50)
    assert device_memory(WORK, "fsdp", 2, accumulate=2).gradients == 44


@pytest.mark.parametrize("name", ["igpt.digits", "vit.tiny", "isotropic.tiny-mixer-pix2vec-1"])
def test_units_have_every_weight_once(name: str) -> None:
    network = registry.find(name).outline()
    outside, *blocks = sharding_units(network)
    for unit, block in zip(blocks, network.backbone.blocks, strict=True):
        assert list(unit) == [tuple(each.shape) for each in block.parameters()]
    assert len(outside) + sum(map(len, blocks)) == len(list(network.parameters()))


def test_the_state_of_an_optimizer_is_that_of_a_step() -> None:
    assert optimizer_bytes(Adam(), ((3, 5), (7,))) == 2 * 4 * 22 + 2 * 4
    assert optimizer_bytes(SGD(), ((3, 5),)) == 4 * 15


def test_plans_are_the_strategies_with_the_fewest_chunks_that_fit() -> None:
    recipe = registry.resolve("igpt.l", assignments=["batch_size=64"]).recipe
    plans = parallel_plans(recipe, "8 x v100-16gb", ["igpt.l"])
    assert [each.name for each in plans] == ["ddp", "ddp, recompute", "fsdp", "fsdp, recompute"]
    assert {each.devices for each in plans} == {"8xV100 16GB"}
    for each in plans:
        assert each.micro_batch * each.accumulate * 8 == 64
        assert each.fits == (each.memory.total <= 0.8 * 16e9)
    assert [each.fits for each in plans] == [False, False, True, True]
    assert plans[1].hours > plans[0].hours == plans[2].hours
    assert plans[3].memory.weights == plans[0].memory.weights / 8
    assert plans[3].command.startswith("isopix pretrain igpt.l parallel=fsdp recompute=true ")
    assert plans[3].command.endswith(" --out RUN --devices 8")
    (alone, _) = parallel_plans(recipe, "1", ["igpt.l"], own_device="H200")
    assert alone.name == "one device"
    assert alone.hours == pytest.approx(8 * 125 / 989 * plans[0].hours)
    many = parallel_plans(recipe.updated(batch_size=96), "12xH100", ["igpt.l"])[0].command
    assert many.startswith("torchrun --nnodes=2 --nproc-per-node=6 ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("64H100", "devices '64H100'; allowed: a number of at least 1, x, and a device whose bf16 peak"),
        ("6xH100", "not a multiple of 6 processes; allowed numbers of devices: 1, 2, 4, 8, 16"),
    ],
)
def test_what_is_no_plan_is_refused_with_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        parallel_plans(registry.find("igpt.tiny"), text, [])
    assert told in str(caught.value)


def test_a_plan_is_that_of_the_recipe_with_its_settings(tmp_path: Path) -> None:
    words = ["igpt.digits", "depth=1", "width=16"]
    found = isopix.plan(*words, price=2.0, devices=("2xH100", "2xL4"), device="cpu")
    recipe = registry.resolve("igpt.digits", assignments=words[1:]).recipe
    assert found.parameters == recipe_cost(recipe).parameters
    assert found.seconds == pytest.approx(found.images / found.images_per_second)
    best = found.recommended("2xH100")
    assert best is not None
    assert best is found.parallel[0]
    assert f"2xH100: {best.command}" in found.notes()
    assert [table.rows[0][0] for table in found.tables()] == ["ddp *", "ddp *"]
    h100 = next(each for each in found.device_hours if each.device == "H100")
    flops = found.images * found.training_flops
    assert h100.hours == pytest.approx(flops / (h100.peak_flops * 0.4) / 3600)
    assert h100.price == pytest.approx(2 * h100.hours)
    saved = found.saved(tmp_path / "plan.json")
    assert PlanResult.read(tmp_path / "plan.json") == saved
