import pytest
import torch
from torch import Tensor

from isopix.analysis import cost
from isopix.core import device
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.cost import memory_of, of_recipe
from tests.laws import cases

CPU = torch.device("cpu")


def test_memory_of_a_step_is_the_weights_once_and_the_activations_of_each_image() -> None:
    assert cost.Memory(1000, 3, 10).bytes(7) == 1073


SMALL = {
    "igpt.digits": ["width=32"],
    "igpt.digits_bert": ["width=32", "precision=bf16"],
    "isotropic.tiny-conv-fourier-3": ["width=16"],
    "isotropic.tiny-mixer-pix2vec-1": ["width=16"],
    "patchformer.tiny": ["width=32", "stem.channels=4", "head.channels=16"],
    "vit.tiny": ["width=32", "precision=bf16"],
    "vit.tiny_axial": ["width=32", "depth=2"],
    "vit.tiny_hybrid": ["width=32", "depth=2", "stem.channels=4"],
}


@pytest.mark.parametrize("name", SMALL)
def test_memory_is_what_a_real_step_keeps(name: str) -> None:
    """Of a network with numbers, in the tensors that autograd holds, each place in memory once; what is
    estimated comes from a network without any.
    """
    recipe = registry.resolve(name, assignments=SMALL[name]).recipe
    found = memory_of(recipe)
    assert found.weight_bytes == 16 * of_recipe(recipe).parameters
    codec = recipe.model.codec.placeholder(recipe.grid)
    net, images = recipe.build(codec), 24
    model = PretrainModel(net, recipe.objective)
    problem = model.make_batch(cases.images(recipe, images), generator(3, "mask"))
    held: dict[int, int] = {}
    keeping = []  # or their places would be taken again

    def keep(tensor: Tensor) -> Tensor:
        keeping.append(tensor)
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        device.autocast(CPU, recipe.train.precision),
    ):
        model(problem)
    own = {each.untyped_storage().data_ptr() for each in net.tensors().values()}
    real = sum(size for place, size in held.items() if place not in own)
    estimated = found.bytes(images) - found.weight_bytes
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


def test_a_patchformers_memory_is_mostly_its_stems() -> None:
    """588 MiB were counted over one real image in 32 bits, what is kept of weights alone among them."""
    whole, bare = (
        memory_of(registry.resolve("patchformer.base", assignments=["precision=fp32", *words]).recipe)
        for words in ([], ["stem=patch_embed"])
    )
    assert (whole.copy_bytes + whole.activation_bytes) / 2**20 == pytest.approx(588, rel=0.03)
    assert bare.activation_bytes < 0.3 * whole.activation_bytes
    assert whole.bytes(128) > 60 * 2**30


def test_training_is_three_forward_passes() -> None:
    found = of_recipe(registry.find("igpt.digits"))
    assert found.training_flops == 3 * found.forward_flops


def test_flops_are_of_blocks_and_of_graded_positions_alone() -> None:
    """Width 64, 4 blocks, 8x8: matrices are 24 D^2 a position, attention 4 D for each position looked at."""
    blocks = 4 * 64 * (24 * 64**2 + 4 * 64 * 64)
    recipe = registry.resolve("igpt.digits_bert").recipe
    assert of_recipe(recipe).forward_flops == blocks + 2 * 64 * 17 * round(64 * 0.15)
    causal = registry.resolve("igpt.digits").recipe
    assert of_recipe(causal).forward_flops == blocks - 4 * 64 * 4 * 64 * 31.5 + 2 * 64 * 17 * 64


def test_expected_speed_is_four_tenths_of_the_data_sheets_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "peak_flops", lambda device, precision: 1e15)
    monkeypatch.setattr(cost, "matrix_rate", lambda *asked: pytest.fail("the peak is known"))
    assert cost.speed(CPU, "bf16", 64) == pytest.approx(4e14)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_expected_speed_without_a_peak_is_measured(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    asked = []

    def rate(*arguments: object) -> float:
        asked.append(arguments)
        return 1e9

    monkeypatch.setattr(cost, "peak_flops", lambda device, precision: None)
    monkeypatch.setattr(cost, "matrix_rate", rate)
    assert cost.speed(CPU, precision, 64) == pytest.approx(4e8)
    assert asked == [(CPU, precision, 64)]


def test_a_matrix_product_is_counted_as_two_flops_a_multiply_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """One product of [2048 x 8] and [8 x 32] in two seconds."""
    clock = iter([0.0, 0.0, 1.0, 2.0])
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(clock))
    assert cost.matrix_rate(CPU, "fp32", 8) == pytest.approx(2 * 2048 * 8 * 32 / 2)


def test_device_hours_are_flops_by_peak_and_utilisation() -> None:
    [a100] = cost.rents(312e12 * 3600 * 100, "bf16", devices=["A100"], utilisation=0.5, price=2.5)
    assert a100 == cost.Rent("A100", 312e12, pytest.approx(200), pytest.approx(500))
    [v100] = cost.rents(15.7e12 * 3600, "fp32", devices=["V100"], utilisation=1.0)
    assert (v100.hours, v100.money) == (pytest.approx(1), None)


def test_without_names_every_device_with_a_peak_is_told() -> None:
    assert [rent.device for rent in cost.rents(1e18, "bf16")] == list(device.SHEETS)
    assert "TPUv3 core" not in [rent.device for rent in cost.rents(1e18, "fp32")]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"devices": ["TPUv3 core"]}, "no fp32 peak of device 'TPUv3 core' is known; known: H200"),
        ({"devices": ["A200"]}, "device 'A200'"),
        ({"utilisation": 0.0}, "utilisation 0.0 must lie in"),
        ({"utilisation": 1.1}, "utilisation 1.1 must lie in"),
        ({"price": -1.0}, "price -1.0 must be"),
    ],
)
def test_what_cannot_be_reckoned_is_refused(asked: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cost.rents(1e18, "fp32", **asked)
