"""Parameters, FLOPs and memory, on one device and several, against real steps and by hand."""

import pytest
import torch
from torch import Tensor

from isopix.core import device
from isopix.core.choices import MFU
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import cost, registry
from isopix.recipes.cost import check_memory, recipe_cost, recipe_memory
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import DeviceMemory, TrainingMemory
from isopix.recipes.sharding_memory import (
    TrainingWork,
    device_memory,
    optimizer_bytes,
    parallel_plans,
    sharding_units,
)
from isopix.train.config import SGD, Adam, TrainConfig
from tests.laws import cases

CPU, GIB = torch.device("cpu"), 2**30

SMALL = {
    "igpt.digits": ["width=32"],
    "igpt.digits_bert": ["width=32", "precision=bf16"],
    "isotropic.tiny-conv-fourier-3": ["width=16"],
    "isotropic.tiny-mixer-pix2vec-1": ["width=16"],
    "patchformer.tiny": ["width=32", "head.channels=16"],
    "vit.tiny": ["width=32", "precision=bf16"],
    "vit.tiny_axial": ["width=32", "depth=2"],
    "vit.tiny_hybrid": ["width=32", "depth=2", "stem.channels=4"],
}


def resolved(name: str, *words: str) -> Recipe:
    return registry.resolve(name, settings=words).recipe


@pytest.mark.parametrize("name", SMALL)
def test_memory_matches_the_tensors_saved_by_a_real_step(name: str) -> None:
    """The real step counts each storage that autograd saves once; the estimate allocates no weights."""
    recipe = resolved(name, *SMALL[name])
    found = recipe_memory(recipe)
    assert found.weight_bytes == 16 * recipe_cost(recipe).parameters
    codec, positions = recipe.model.codec.placeholder(recipe.grid), recipe.grid.positions
    model, images = PretrainModel(recipe.build(codec), recipe.objective), 24
    batch = model.make_batch(cases.images(recipe, images), generator(3, "mask"))
    saved: dict[int, int] = {}
    alive = []  # or their memory would be reused

    def save(tensor: Tensor) -> Tensor:
        alive.append(tensor)
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor),
        device.autocast(CPU, recipe.train.gpu_precision),
    ):
        model(batch)
    own = {each.untyped_storage().data_ptr() for each in model.network.tensors().values()}
    real = sum(size for pointer, size in saved.items() if pointer not in own)
    estimated = found.step_bytes(images) - found.weight_bytes
    decoded = round(positions * recipe.objective.decoded_fraction(positions, codec.num_codes))
    gradient = images * 4 * codec.num_codes * codec.vocab_size * decoded
    assert estimated - gradient == pytest.approx(real, rel=0.02)


def test_flops_count_blocks_and_the_head_at_positions_in_the_loss() -> None:
    """Width 64, 4 blocks, 8x8: matrices take 24 D^2 per position, attention 4 D per attended position."""
    blocks = 4 * 64 * (24 * 64**2 + 4 * 64 * 64)
    assert recipe_cost(resolved("igpt.digits_bert")).forward_flops == blocks + 2 * 64 * 17 * round(64 * 0.15)
    causal = recipe_cost(resolved("igpt.digits"))
    assert causal.forward_flops == blocks - 4 * 64 * 4 * 64 * 31.5 + 2 * 64 * 17 * 64
    assert causal.training_flops == 3 * causal.forward_flops


def test_dropping_tying_and_recomputation_are_counted() -> None:
    """Dropped positions are not computed; tied blocks run every time; recomputed blocks once more."""
    whole = recipe_cost(resolved("patchformer.base", "objective.corruption=mask_token"))
    dropped = recipe_cost(registry.find("patchformer.base"))
    assert dropped.forward_flops / whole.forward_flops == pytest.approx(80 / 196, abs=0.05)
    one, each = recipe_cost(resolved("vit.tiny", "tie_blocks=true")), recipe_cost(resolved("vit.tiny"))
    assert each.parameters - one.parameters == 3 * (12 * 128**2 + 13 * 128)
    assert each.forward_flops == one.forward_flops
    recipes = (resolved("igpt.tiny", f"train.recompute={given}") for given in ("false", "true"))
    plain, again = map(recipe_cost, recipes)
    block = 1024 * (24 * 128**2 + 4 * (1024 + 1) / 2 * 128)
    assert again.training_flops - plain.training_flops == int(4 * block)


def test_matmul_throughput_counts_two_flops_per_multiply_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """One product of [2048 x 8] and [8 x 32] in two seconds."""
    clock = iter([0.0, 0.0, 1.0, 2.0])
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(clock))
    assert cost.matmul_throughput(CPU, "fp32", 8) == pytest.approx(2 * 2048 * 8 * 32 / 2)


def check(recipe: Recipe) -> str:
    return check_memory(recipe, total=8 * GIB, free=8 * GIB)


def test_a_batch_that_cannot_fit_is_refused_with_the_one_that_does() -> None:
    with pytest.raises(ValueError, match=r"\Atraining needs about [^\n]*\Z") as caught:
        check(resolved("igpt.tiny", "batch_size=1000000000"))
    message, memory = str(caught.value), recipe_memory(resolved("igpt.tiny"))
    size = int(message.split("batch_size=")[1].split(maxsplit=1)[0])
    chunks = int(message.split("accumulate=")[1])
    assert memory.step_bytes(size) <= 0.8 * 8 * GIB < memory.step_bytes(size + 1)
    assert 10**9 % chunks == 0
    assert memory.step_bytes(10**9 // chunks) <= 0.8 * 8 * GIB
    assert check(resolved("igpt.tiny", f"batch_size={size}")) == ""
    assert check(resolved("igpt.tiny", "batch_size=1000000000", f"accumulate={chunks}")) == ""


@pytest.mark.parametrize("setting", ["width=65536", "width=40000"])
def test_a_network_that_cannot_fit_is_refused_before_it_is_built(setting: str) -> None:
    with pytest.raises(ValueError, match=r"a smaller depth or width is needed|is too large for any memory"):
        check(resolved("igpt.tiny", setting))


def test_the_estimate_for_a_depth_is_that_of_the_whole_network() -> None:
    recipe = resolved("igpt.tiny", "depth=7", "batch_size=64")
    needed = recipe_memory(recipe).step_bytes(64)
    with pytest.raises(ValueError, match=rf"needs about {needed / GIB:,.1f} GiB"):
        check_memory(recipe, total=needed - 1, free=needed)
    assert check_memory(recipe, total=needed, free=needed).startswith("training needs about")
    assert check_memory(recipe, total=needed, free=2 * needed) == ""


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
    recipe = registry.resolve("igpt.l", settings=["batch_size=64"]).recipe
    plans = parallel_plans(recipe, "8 x v100-16gb", ["igpt.l"])
    assert [each.name for each in plans] == ["ddp", "ddp, recompute", "fsdp", "fsdp, recompute"]
    assert {each.devices for each in plans} == {"8xV100 16GB"}
    for each in plans:
        assert each.micro_batch * each.accumulate * 8 == 64
        assert each.fits == (each.memory.total <= 0.8 * 16e9)
    assert [each.fits for each in plans] == [False, False, True, True]
    assert plans[1].hours > plans[0].hours == plans[2].hours
    half = parallel_plans(recipe, "8 x v100-16gb", ["igpt.l"], mfu=MFU / 2)
    assert [each.hours for each in half] == [2 * each.hours for each in plans]
    assert plans[3].memory.weights == plans[0].memory.weights / 8
    assert plans[3].command.startswith("isopix pretrain igpt.l parallel=fsdp recompute=true ")
    assert plans[3].command.endswith(" --out RUN --devices 8")
    (alone, _) = parallel_plans(recipe, "1", ["igpt.l"], own_device="H200")
    assert alone.name == "one device"
    assert alone.hours == pytest.approx(8 * 125 / 989 * plans[0].hours)
    many = parallel_plans(recipe.updated(batch_size=96), "12xH100", ["igpt.l"])[0].command
    assert many.startswith("torchrun --nnodes=2 --nproc-per-node=6 ")


def test_devices_that_cannot_divide_the_batch_are_refused_with_the_numbers_that_can() -> None:
    with pytest.raises(ValueError, match=r"of 6 processes; allowed numbers of devices: 1, 2, 4, 8, 16\Z"):
        parallel_plans(registry.find("igpt.tiny"), "6xH100", [])
