"""Devices: where bf16 is native, and freed memory that is used again."""

import platform
import subprocess
import sys
from pathlib import Path

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


FAULTS = """
import resource, torch
from isopix.core.device import reuse_freed_memory
{call}
network = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 64))
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    before = faults()
    network(torch.ones(10_000, 64)).sum().backward()
print(faults() - before)
"""


def printed(program: str) -> int:
    return int(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


@pytest.mark.integration
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_freed_memory_is_used_again_without_new_pages() -> None:
    new_pages, reused = (printed(FAULTS.format(call=call)) for call in ("", "reuse_freed_memory()"))
    assert reused < new_pages / 2


def test_the_memory_of_a_container_is_its_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    monkeypatch.setattr(device, "CGROUP_LIMIT", tmp_path / "memory.max")
    assert device.total_memory(torch.device("cpu")) == 1_000_000


def test_what_is_above_the_machines_memory_is_refused_with_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "total_memory", lambda where: 1000)
    with device.report_memory("10 images", 10, 100):
        pass
    refused = pytest.raises(ValueError, match="not enough memory for 11 images; 10 fit")
    with refused, device.report_memory("11 images", 11, 100):
        pass
    with pytest.raises(RuntimeError, match="not enough memory for 1 image"), device.report_memory("1 image"):
        raise MemoryError
