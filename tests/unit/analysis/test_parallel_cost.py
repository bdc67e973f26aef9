"""The model of a parallel step, by hand for a network of eleven weights, and its laws."""

from itertools import pairwise
from math import prod

import pytest

from isopix.analysis.cluster import Cluster, parse_cluster
from isopix.analysis.parallel_cost import (
    ShardingUnit,
    TrainingWork,
    bucket_bytes,
    device_memory,
    optimizer_bytes,
    parallel_efficiency,
    sharding_units,
    step_time,
    traffic,
    update_bytes,
)
from isopix.recipes import registry
from isopix.train.optim import SGD, Adam
from isopix.train.parallel import Strategy

# Outside of blocks [3, 1], 3 weights; one block of [2, 4], 8 weights. Batches of 8 images.
ROOT, BLOCK = ShardingUnit(((3, 1),)), ShardingUnit(((2, 4),))
JOB = TrainingWork(
    units=(ROOT, BLOCK),
    optimizer=Adam(),
    precision="bf16",
    batch_size=8,
    steps=10,
    forward_flops=100,
    backward_flops=200,
    activation_bytes=50,
    logits_bytes=6,
    copy_bytes=22,
)
# A FLOP and a byte a second, without hops.
SLOW = Cluster("some", 1, 2, 1.0, 10**9, 1.0, bandwidth=1.0, network_hop=0.0)
STRATEGIES: tuple[Strategy, ...] = ("ddp", "fsdp")


def test_memory_of_ddp() -> None:
    """44 bytes of weights, as many gradients, twice as many moments, and Adam's number of steps of two
    tensors; 2 images at a time of 50 bytes, of which 6 for the gradients of the logits.
    """
    found = device_memory(JOB, "ddp", 2, accumulate=2)
    assert found == (44, 44, 88 + 8, 22, 0, 0, 2 * 44, 2 * 6)
    assert found.total == sum(found)


def test_memory_of_fsdp() -> None:
    """The larger half of 3 rows is 2, of 2 rows 1: 2 + 4 weights. Gathered in 2 bytes: 3 weights, and 8
    twice; summed: gradients of 8 weights in 2 bytes, and twice in 4.
    """
    found = device_memory(JOB, "fsdp", 2, accumulate=1)
    assert found == (24, 24, 48 + 8, 0, 2 * (3 + 16), 2 * 8 + 8 * 8, 4 * 44, 4 * 6)
    assert device_memory(JOB, "fsdp", 2, accumulate=2).gradients == 44


def test_bytes_exchanged() -> None:
    """FSDP pads 3 rows to 4: 4 + 8 weights, 24 bytes in 16 bits for each of two chunks and passes; their
    gradients are summed once in 32 bits. Each of two devices sends half, or for an all-reduce all.
    """
    assert traffic(JOB, "ddp", 2, accumulate=2)[:4] == (0, 0, 0, 44)
    assert traffic(JOB, "ddp", 2, accumulate=2).sent(SLOW) == 44
    found = traffic(JOB, "fsdp", 2, accumulate=2)
    assert found == (48, 48, 48, 0, (4, 4, 2, 0))
    assert found.sent(SLOW) == 72


def test_time_of_ddp() -> None:
    """4 images of 300 FLOPs; 44 bytes sent, less than the 800 s of the backward pass, but the last bucket:
    all of them. An update reads 44 bytes of gradients, and reads and writes 44 + 96.
    """
    found = step_time(JOB, "ddp", SLOW, accumulate=1)
    assert found == (1200, 44 + 2 * (44 + 96), 44, 44)
    fast = SLOW._replace(flops=1e9)
    assert step_time(JOB, "ddp", fast, accumulate=1).exposed == pytest.approx(44)


def test_time_of_fsdp() -> None:
    """Gathers of 12 s in each pass, and 24 s of sums. Waited for: the weights outside of blocks, padded to 4,
    4 s, and their gradients, 8 s; or, if computation takes no time, all; or, without overlap, all.
    """
    found = step_time(JOB, "fsdp", SLOW, accumulate=1)
    assert (found.compute, found.communication, found.exposed) == (1200, 48, 4 + 8)
    assert step_time(JOB, "fsdp", SLOW._replace(flops=1e12), accumulate=1).exposed == pytest.approx(48)
    assert step_time(JOB, "fsdp", SLOW._replace(overlaps=False), accumulate=1).exposed == 48
    assert step_time(JOB, "fsdp", SLOW, accumulate=2).exposed == 2 * 4 + 8
    assert found.update == update_bytes(JOB, "fsdp", 2) == 24 + 2 * (24 + 56)


def test_efficiency_is_the_speed_relative_to_one_device() -> None:
    """One device: 2400 s, and an update of 324 s. Two: half of the first, the same update, 44 s waiting."""
    found = parallel_efficiency(JOB, step_time(JOB, "ddp", SLOW, accumulate=1), SLOW)
    assert found == pytest.approx((2400 + 324) / (2 * (1200 + 324 + 44)))


def test_one_device_exchanges_nothing() -> None:
    one = SLOW._replace(per_node=1)
    for strategy in STRATEGIES:
        assert traffic(JOB, strategy, 1, accumulate=4).sent(one) == 0
        found = step_time(JOB, strategy, one, accumulate=4)
        assert (found.communication, found.exposed) == (0, 0)
        assert parallel_efficiency(JOB, found, one) == 1


def test_buckets_end_with_the_gradient_that_fills_them() -> None:
    """The first has 1 MiB, the others 25: three of 2 MiB, 26 and 1, and 4 bytes that are left."""
    mib = 2**20 // 4
    units = (ShardingUnit(((1,),)), ShardingUnit(((mib,), (25 * mib,), (mib,), (2 * mib,))))
    assert bucket_bytes(JOB._replace(units=units)) == [2 * 2**20, 26 * 2**20, 2**20 + 4]


@pytest.mark.parametrize(
    "name", ["igpt.digits", "igpt.digits_bert", "vit.tiny", "isotropic.tiny-mixer-pix2vec-1"]
)
def test_units_have_every_weight_once(name: str) -> None:
    network = registry.find(name).outline()
    units = sharding_units(network)
    assert sum(unit.numel for unit in units) == sum(each.numel() for each in network.parameters())
    assert [unit.numel for unit in units[1:]] == [
        sum(each.numel() for each in block.parameters()) for block in network.backbone.blocks
    ]


def test_tied_blocks_are_one_unit_that_runs_several_times() -> None:
    recipe = registry.resolve("igpt.digits", assignments=["tie_blocks=true", "depth=3"]).recipe
    assert [unit.runs for unit in sharding_units(recipe.outline())] == [1, 3]


def test_the_state_of_an_optimizer_is_that_of_a_step() -> None:
    assert optimizer_bytes(Adam(), ((3, 5), (7,))) == 2 * 4 * 22 + 2 * 4
    assert optimizer_bytes(SGD(), ((3, 5),)) == 4 * 15


COUNTS = (1, 2, 4, 8)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_more_devices_never_take_more_memory_with_fsdp(accumulate: int) -> None:
    job = JOB._replace(batch_size=64)
    sizes = [device_memory(job, "fsdp", count, accumulate=accumulate) for count in COUNTS[1:]]
    for fewer, more in pairwise(sizes):
        assert all(b <= a for a, b in zip(fewer, more, strict=True))
        assert more.total < fewer.total


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", ["2xH100", "8xV100", "64xA100", "16xB200"])
@pytest.mark.parametrize("scale", [1, 10**6, 10**12])
def test_efficiency_is_above_0_and_at_most_1(strategy: Strategy, text: str, scale: int) -> None:
    cluster = parse_cluster(text, "bf16")
    job = JOB._replace(batch_size=128, forward_flops=scale, backward_flops=2 * scale)
    for accumulate in (1, 2):
        for overlaps in (True, False):
            given = cluster._replace(overlaps=overlaps)
            found = step_time(job, strategy, given, accumulate=accumulate)
            assert 0 < parallel_efficiency(job, found, given) <= 1
            assert 0 <= found.exposed <= found.communication


def test_ddp_sends_the_same_for_any_number_of_chunks_and_fsdp_gathers_for_each() -> None:
    assert len({traffic(JOB, "ddp", 2, accumulate=count) for count in (1, 2, 4)}) == 1
    once, four = (traffic(JOB, "fsdp", 2, accumulate=count) for count in (1, 4))
    assert four.forward_gathers == 4 * once.forward_gathers
    assert four.reduce_scatters == once.reduce_scatters


def test_shards_of_all_devices_have_every_weight() -> None:
    for count in COUNTS:
        for unit in (ROOT, BLOCK):
            assert count * sum(map(prod, unit.shard(count))) >= unit.numel
    assert BLOCK.shard(2) == ((1, 4),)
    assert ShardingUnit(((),)).shard(2) == ((1,),)
