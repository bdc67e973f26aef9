"""Parameters, FLOPs and memory of recipes, against real steps and by hand; what cannot fit is refused."""

import pytest
import torch
from torch import Tensor, nn

from isopix.core import device
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import cost, registry
from isopix.recipes.cost import activation_bytes, check_memory, recipe_cost, recipe_memory
from isopix.recipes.recipe import Recipe
from tests.laws import cases

CPU = torch.device("cpu")


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


@pytest.mark.parametrize("name", SMALL)
def test_memory_matches_the_tensors_saved_by_a_real_step(name: str) -> None:
    """The real step counts each storage that autograd saves once; the estimate allocates no weights."""
    recipe = registry.resolve(name, assignments=SMALL[name]).recipe
    found = recipe_memory(recipe)
    assert found.weight_bytes == 16 * recipe_cost(recipe).parameters
    codec = recipe.model.codec.placeholder(recipe.grid)
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
    gradient = (
        images
        * 4
        * codec.num_codes
        * codec.vocab_size
        * round(
            recipe.grid.positions * recipe.objective.decoded_fraction(recipe.grid.positions, codec.num_codes)
        )
    )
    assert estimated - gradient == pytest.approx(real, rel=0.02)


def test_a_patchformer_needs_most_memory_for_its_stem() -> None:
    """One real float32 image saves 588 MiB, including what is derived from the weights alone."""
    whole, bare = (
        recipe_memory(registry.resolve("patchformer.base", assignments=["precision=fp32", *words]).recipe)
        for words in ([], ["stem=patch_embed"])
    )
    assert (whole.copy_bytes + whole.activation_bytes) / 2**20 == pytest.approx(588, rel=0.03)
    assert bare.activation_bytes < 0.3 * whole.activation_bytes
    assert whole.step_bytes(128) > 60 * 2**30


def test_training_is_three_forward_passes() -> None:
    found = recipe_cost(registry.find("igpt.digits"))
    assert found.training_flops == 3 * found.forward_flops


def test_flops_count_blocks_and_the_head_at_positions_in_the_loss() -> None:
    """Width 64, 4 blocks, 8x8: matrices take 24 D^2 per position, attention 4 D per attended position."""
    blocks = 4 * 64 * (24 * 64**2 + 4 * 64 * 64)
    recipe = registry.resolve("igpt.digits_bert").recipe
    assert recipe_cost(recipe).forward_flops == blocks + 2 * 64 * 17 * round(64 * 0.15)
    causal = registry.resolve("igpt.digits").recipe
    assert recipe_cost(causal).forward_flops == blocks - 4 * 64 * 4 * 64 * 31.5 + 2 * 64 * 17 * 64


def test_training_throughput_is_the_mfu_times_the_data_sheet_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "peak_flops", lambda device, precision: 1e15)
    monkeypatch.setattr(cost, "matmul_throughput", lambda *given: pytest.fail("the peak is known"))
    assert cost.training_throughput(CPU, "bf16", 64) == pytest.approx(4e14)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_training_throughput_without_a_peak_is_measured(
    monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    given = []

    def rate(*arguments: object) -> float:
        given.append(arguments)
        return 1e9

    monkeypatch.setattr(cost, "peak_flops", lambda device, precision: None)
    monkeypatch.setattr(cost, "matmul_throughput", rate)
    assert cost.training_throughput(CPU, precision, 64) == pytest.approx(4e8)
    assert given == [(CPU, precision, 64)]


def test_matmul_throughput_counts_two_flops_per_multiply_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """One product of [2048 x 8] and [8 x 32] in two seconds."""
    clock = iter([0.0, 0.0, 1.0, 2.0])
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(clock))
    assert cost.matmul_throughput(CPU, "fp32", 8) == pytest.approx(2 * 2048 * 8 * 32 / 2)


def test_device_hours_are_flops_by_peak_and_utilization() -> None:
    costs = cost.device_costs(312e12 * 3600 * 100, "bf16", mfu=0.5, price_per_hour=2.5)
    a100 = next(each for each in costs if each.device == "A100")
    assert (a100.peak_flops, a100.hours, a100.price) == (312e12, pytest.approx(200), pytest.approx(500))
    v100 = next(each for each in cost.device_costs(15.7e12 * 3600, "fp32", mfu=1.0) if each.device == "V100")
    assert (v100.hours, v100.price) == (pytest.approx(1), None)


def test_a_linear_layer_saves_its_input_and_a_sigmoid_its_output() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 3))
    assert activation_bytes(lambda: net(torch.ones(7, 6)), exclude=net.parameters()) == 4 * 7 * (6 + 5)


def test_weights_count_unless_they_are_excluded() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    more = activation_bytes(lambda: net(torch.ones(7, 6)), exclude=()) - activation_bytes(
        lambda: net(torch.ones(7, 6)), exclude=net.parameters()
    )
    assert more == 4 * 5 * 3  # the second matrix: the first one's input needs no gradient


def test_tensors_that_share_memory_count_once() -> None:
    given = torch.ones(8, 4, requires_grad=True)

    def forward() -> Tensor:
        copy = given + 1
        one, other = copy.chunk(2)
        return one * other + copy[:4].square()

    assert activation_bytes(forward, exclude=()) == 4 * 8 * 4


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
