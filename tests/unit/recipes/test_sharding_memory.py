"""Memory of several devices, by hand for a network of eleven weights, and what fits."""

import pytest

from isopix.recipes import registry
from isopix.recipes.sharding_memory import (
    ShardingUnit,
    TrainingWork,
    device_memory,
    optimizer_bytes,
    parallel_plans,
    sharding_units,
)
from isopix.train.optim import SGD, Adam

# Outside of blocks [3, 1], 3 weights; one block of [2, 4], 8 weights. Batches of 8 images.
ROOT, BLOCK = ShardingUnit(((3, 1),)), ShardingUnit(((2, 4),))
JOB = TrainingWork((ROOT, BLOCK), Adam(), "bf16", 8, activation_bytes=50, logits_bytes=6, copy_bytes=22)


def test_memory_of_ddp() -> None:
    """44 bytes of weights, as many gradients, twice as many moments, and Adam's number of steps of two
    tensors; 2 images at a time of 50 bytes, of which 6 for the gradients of the logits.
    """
    found = device_memory(JOB, "ddp", 2, accumulate=2)
    assert tuple(vars(found).values()) == (44, 44, 88 + 8, 22, 0, 0, 2 * 44, 2 * 6)


def test_memory_of_fsdp() -> None:
    """The larger half of 3 rows is 2, of 2 rows 1: 2 + 4 weights. Gathered in 2 bytes: 3 weights, and 8
    twice; summed: gradients of 8 weights in 2 bytes, and twice in 4.
    """
    found = device_memory(JOB, "fsdp", 2, accumulate=1)
    assert tuple(vars(found).values()) == (24, 24, 48 + 8, 0, 2 * (3 + 16), 2 * 8 + 8 * 8, 4 * 44, 4 * 6)
    assert device_memory(JOB, "fsdp", 2, accumulate=2).gradients == 44


@pytest.mark.parametrize("name", ["igpt.digits", "vit.tiny", "isotropic.tiny-mixer-pix2vec-1"])
def test_units_have_every_weight_once(name: str) -> None:
    network = registry.find(name).outline()
    units = sharding_units(network)
    assert sum(unit.numel for unit in units) == sum(each.numel() for each in network.parameters())
    assert [unit.numel for unit in units[1:]] == [
        sum(each.numel() for each in block.parameters()) for block in network.backbone.blocks
    ]


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
        assert all(setting in each.command for setting in each.settings)
    assert [each.fits for each in plans] == [False, False, True, True]
    assert plans[1].hours > plans[0].hours == plans[2].hours
    assert plans[3].memory.weights == plans[0].memory.weights / 8
    assert plans[3].command.endswith("--devices 8")
    (alone, _) = parallel_plans(recipe, "1", ["igpt.l"], own_device="H200")
    assert alone.name == "one device"
    assert alone.hours == pytest.approx(8 * 125 / 989 * plans[0].hours)
    many = parallel_plans(recipe.updated(batch_size=96), "12xH100", ["igpt.l"])[0].command
    assert many.startswith("torchrun --nnodes=2 --nproc-per-node=6 ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("64H100", "devices '64H100'; allowed: a number of at least 1, x, and a device, as in 64xH100"),
        ("0xH100", "allowed: a number of at least 1"),
        ("8xFOO", "devices '8xFOO': no bf16 peak of 'FOO' is known; allowed: B200, H200, H100"),
        ("8xTPUv3 core", "of 'TPUv3 core' is known"),
        ("8", "devices '8' names no device"),
        (
            "6xH100",
            "batch_size 16 is not a multiple of 6 processes; allowed numbers of devices: 1, 2, 4, 8, 16",
        ),
    ],
)
def test_what_is_no_plan_is_refused_with_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        parallel_plans(registry.find("igpt.tiny"), text, [])
    assert told in str(caught.value)
