import pytest
import torch

from isopix.core import device


def test_auto_finds_something() -> None:
    assert device.select_device("auto").type in {"cpu", "cuda", "mps"}


def test_an_unavailable_device_is_rejected_with_the_available_ones() -> None:
    with pytest.raises(ValueError, match="device 'tpu' is not available; available: auto, cpu"):
        device.select_device("tpu")


def test_environment_is_what_bitwise_reproducibility_depends_on() -> None:
    found = device.runtime_environment(torch.device("cpu"))
    assert found["threads"] == torch.get_num_threads()
    assert found["torch"] == torch.__version__
    assert str(found["device"]).startswith("cpu (")


@pytest.mark.parametrize(
    ("name", "precision", "peak"),
    [
        ("NVIDIA L4", "bf16", 121e12),
        ("NVIDIA L40", "bf16", None),
        ("NVIDIA L40S", "bf16", None),
        ("NVIDIA H100 80GB HBM3", "bf16", 989e12),
        ("NVIDIA H100 PCIe", "bf16", 756e12),
        ("NVIDIA GeForce RTX 4090 D", "bf16", None),
        ("NVIDIA H200", "fp32", None),
    ],
)
def test_a_peak_is_of_the_exact_device_and_bf16(
    monkeypatch: pytest.MonkeyPatch, name: str, precision: str, peak: float | None
) -> None:
    monkeypatch.setattr(device.torch.cuda, "get_device_name", lambda where: name)
    assert device.peak_flops(torch.device("cuda"), precision) == peak


def test_a_cpu_has_no_peak() -> None:
    assert device.peak_flops(torch.device("cpu"), "bf16") is None
