"""Devices: what is there, their data-sheet peaks, and where bf16 is native."""

from pathlib import Path

import pytest
import torch

from isopix.core import device

MPS = ("backends.mps.is_built", "backends.mps.is_macos_or_newer")
X86 = ("cpu._is_avx512_bf16_supported", "cpu._is_amx_tile_supported")


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
        ("NVIDIA L40S", "bf16", None),
        ("NVIDIA H100 80GB HBM3", "bf16", 989e12),
        ("NVIDIA GeForce RTX 4090 D", "bf16", None),
        ("NVIDIA H200", "fp32", None),
    ],
)
def test_a_peak_is_of_the_exact_device_and_bf16(
    monkeypatch: pytest.MonkeyPatch, name: str, precision: str, peak: float | None
) -> None:
    monkeypatch.setattr(device.torch.cuda, "get_device_name", lambda where: name)
    assert device.peak_flops(torch.device("cuda"), precision) == peak
    assert device.peak_flops(torch.device("cpu"), "bf16") is None


@pytest.mark.parametrize(
    ("kind", "machine", "names", "supported", "precision"),
    [
        ("cuda", "x86_64", ("cuda.is_bf16_supported",), (True,), "bf16"),
        ("cuda", "x86_64", ("cuda.is_bf16_supported",), (False,), "fp32"),
        ("mps", "arm64", MPS, (True, True), "bf16"),
        ("mps", "arm64", MPS, (True, False), "fp32"),
        ("mps", "arm64", MPS, (False, True), "fp32"),
        ("cpu", "x86_64", X86, (False, True), "bf16"),
        ("cpu", "x86_64", X86, (False, False), "fp32"),
        ("cpu", "aarch64", ("ops.mkldnn._is_mkldnn_bf16_supported",), (True,), "bf16"),
        ("cpu", "aarch64", ("ops.mkldnn._is_mkldnn_bf16_supported",), (False,), "fp32"),
    ],
)
def test_a_device_that_emulates_bf16_computes_in_fp32(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    machine: str,
    names: tuple[str, ...],
    supported: tuple[bool, ...],
    precision: str,
) -> None:
    monkeypatch.setattr(device.platform, "machine", lambda: machine)
    for name, answer in zip(names, supported, strict=True):
        monkeypatch.setattr(f"torch.{name}", lambda *args, answer=answer, **named: answer)
    assert device.native_precision(torch.device(kind)) == precision


def test_the_precision_of_this_processor_is_that_of_its_instructions() -> None:
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    if device.platform.machine() != "x86_64" or not flags:
        pytest.skip("no list of the processor's instructions")
    native = "avx512_bf16" in flags or "amx_bf16" in flags
    assert device.native_precision(torch.device("cpu")) == ("bf16" if native else "fp32")
