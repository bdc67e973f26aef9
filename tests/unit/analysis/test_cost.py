import pytest
import torch
from torch import Tensor

from isopix.core import device
from isopix.core.device_specs import DEVICE_SPECS
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost, recipe_memory
from isopix.studies.inductive_bias.grid import cost
from tests.laws import cases

CPU = torch.device("cpu")


def test_step_memory_is_weights_plus_activations_per_image() -> None:
    assert cost.TrainingMemory(1000, 3, 10).step_bytes(7) == 1073


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
    [a100] = cost.device_costs(312e12 * 3600 * 100, "bf16", devices=["A100"], mfu=0.5, price_per_hour=2.5)
    assert a100 == cost.DeviceCost("A100", 312e12, pytest.approx(200), pytest.approx(500))
    [v100] = cost.device_costs(15.7e12 * 3600, "fp32", devices=["V100"], mfu=1.0)
    assert (v100.hours, v100.price) == (pytest.approx(1), None)


def test_all_devices_with_a_peak_are_listed_by_default() -> None:
    assert [each.device for each in cost.device_costs(1e18, "bf16")] == list(DEVICE_SPECS)
    assert "TPUv3 core" not in [each.device for each in cost.device_costs(1e18, "fp32")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"devices": ["TPUv3 core"]}, "no fp32 peak of device 'TPUv3 core' is known; known: B200"),
        ({"devices": ["A200"]}, "device 'A200'"),
        ({"mfu": 0.0}, "utilization 0.0 must be in"),
        ({"mfu": 1.1}, "utilization 1.1 must be in"),
        ({"price_per_hour": -1.0}, "price -1.0 must be"),
    ],
)
def test_invalid_cost_settings_are_rejected(given: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cost.device_costs(1e18, "fp32", **given)
