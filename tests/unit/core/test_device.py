"""Devices: what is there, their data-sheet peaks, and where bf16 is native."""

import pytest
import torch

from isopix.core import device

MPS = ("backends.mps.is_built", "backends.mps.is_macos_or_newer")
X86 = ("cpu._is_avx512_bf16_supported", "cpu._is_amx_tile_supported")


@pytest.mark.parametrize(
    ("kind", "machine", "names", "supported", "precision"),
    [
        ("cuda", "x86_64", ("cuda.is_bf16_supported",), (True,), "bf16"),
        ("cuda", "x86_64", ("cuda.is_bf16_supported",), (False,), "fp32"),
        ("mps", "arm64", MPS, (True, True), "bf16"),
        ("mps", "arm64", MPS, (True, False), "fp32"),
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
