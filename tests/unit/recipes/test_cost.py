"""Parameters, FLOPs and memory, on one device and several, against real steps and by hand."""

import pytest
import torch
from torch import Tensor

from isopix.core import device
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import cost, registry
from isopix.recipes.cost import check_memory, recipe_cost, recipe_memory
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import TrainingMemory
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


def test_windows_and_the_convolution_of_embeddings_are_counted() -> None:
    """13 taps; three of four blocks see the last 96 of 1,024 positions."""
    plain, conv, rows = (
        recipe_cost(resolved("igpt.tiny", *words)).forward_flops
        for words in ((), ("embedding_conv=true",), ("attention_rows=3",))
    )
    assert conv - plain == 1024 * 2 * 13 * 128
    assert plain - rows == 3 * 4 * 128 * sum(position + 1 - 96 for position in range(96, 1024))


def test_matmul_throughput_counts_two_flops_per_multiply_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """One product of [512 x 8] and [8 x 32] in two seconds."""
    clock = iter([0.0, 0.0, 1.0, 2.0])
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(clock))
    assert cost.matmul_throughput(CPU, "fp32", 8) == pytest.approx(2 * 512 * 8 * 32 / 2)


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


@pytest.mark.parametrize("setting", ["drop_path=0.1", "tie_blocks=true"])
@pytest.mark.parametrize("name", ["igpt.tiny", "igpt.tiny_bert", "patchformer.tiny", "vit.tiny"])
def test_bytes_by_depth_are_those_of_the_whole_network(name: str, setting: str) -> None:
    recipe = resolved(name, "depth=6", "recompute=true", "precision=bf16", setting)
    assert cost._bytes_by_depth(recipe) == cost._saved_bytes(recipe)


def test_memory_from_the_limit_on_is_refused_and_near_it_warned_of() -> None:
    recipe = resolved("igpt.tiny", "depth=7", "batch_size=64")
    needed = recipe_memory(recipe).step_bytes(64)
    with pytest.raises(ValueError, match=rf"needs about {needed / GIB:,.1f} GiB"):
        check_memory(recipe, total=needed - 1, free=needed)
    assert check_memory(recipe, total=needed, free=needed).startswith("training needs about")
    assert check_memory(recipe, total=needed, free=2 * needed) == ""


def test_devices_with_fsdp_have_a_part_of_the_state_and_gathered_blocks() -> None:
    """igpt.digits of depth 2: 16 bytes a weight, in 4 parts; gathered weights and sent gradients of bf16."""
    recipe = resolved("igpt.digits", "depth=2", "precision=bf16", "parallel=fsdp")
    network, memory = recipe.outline(), TrainingMemory(1600, 7, 50)
    block = sum(each.numel() for each in network.backbone.blocks[0].parameters())
    outside = sum(each.numel() for each in network.parameters()) - 2 * block
    expected = 400 + 2 * (outside + 2 * block) + (2 + 8) * block
    assert cost.state_bytes(recipe, memory, 4, in_chunks=False) == expected
    assert cost.state_bytes(recipe, memory, 4, in_chunks=True) == expected + 4 * (outside + 2 * block)
    assert cost.state_bytes(recipe.updated(parallel="ddp"), memory, 4, in_chunks=True) == 1607
