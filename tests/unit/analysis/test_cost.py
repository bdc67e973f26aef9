import pytest
import torch

from isopix.analysis import cost
from isopix.core import device
from isopix.recipes import catalogue
from isopix.recipes.cost import of_recipe

CPU = torch.device("cpu")


def test_memory_of_a_step_is_the_weights_once_and_the_activations_of_each_image() -> None:
    assert cost.Cost(1, 2, 6, 1000, 10).bytes(7) == 1070


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("bf16", 2)])
def test_bytes_are_counted_by_parameter_and_by_position(precision: str, size: int) -> None:
    """16 bytes a parameter; 16 values of width D a block, and float32 logits with their gradient."""
    recipe = catalogue.resolve("igpt.digits", assignments=[f"precision={precision}"]).recipe
    found = of_recipe(recipe)
    assert found.weight_bytes == 16 * found.parameters
    assert found.activation_bytes == 64 * (4 * 16 * 64 * size + 8 * 17)
    assert found.training_flops == 3 * found.forward_flops


def test_flops_are_of_blocks_and_of_graded_positions_alone() -> None:
    """Width 64, 4 blocks, 8x8: matrices are 24 D^2 a position, attention 4 D for each position looked at."""
    blocks = 4 * 64 * (24 * 64**2 + 4 * 64 * 64)
    recipe = catalogue.resolve("igpt.digits_bert").recipe
    assert of_recipe(recipe).forward_flops == blocks + 2 * 64 * 17 * round(64 * 0.15)
    causal = catalogue.resolve("igpt.digits").recipe
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
