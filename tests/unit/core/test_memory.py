"""Memory of devices: what a call takes at its peak, and freed memory that is used again."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from isopix.core import memory

FAULTS = """
import resource, torch
from isopix.core.memory import reuse_freed_memory
{call}
network = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 64))
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    before = faults()
    network(torch.ones(10_000, 64)).sum().backward()
print(faults() - before)
"""


PEAK = """
import torch
from isopix.core.memory import peak_memory, reuse_freed_memory
{call}
held = torch.ones(30 * 2**18)
torch.ones(200 * 2**18)
def step():
    torch.ones(50 * 2**18)
    first, second = torch.ones(40 * 2**18), torch.ones(60 * 2**18)
    del first
    torch.ones(20 * 2**18)
print(peak_memory(torch.device("cpu"), step))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not count it")
@pytest.mark.parametrize("call", ["", "reuse_freed_memory()"])
def test_the_peak_of_a_call_is_what_its_tensors_take_at_once(call: str) -> None:
    """40 + 60 MiB, whatever was freed before, and up to 10 that are free between them."""
    done = subprocess.run([sys.executable, "-c", PEAK.format(call=call)], capture_output=True, check=True)
    assert int(done.stdout) / 2**20 == pytest.approx(100, abs=12)


def test_a_system_that_does_not_count_has_no_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "Path", lambda name: tmp_path / name.lstrip("/"))
    assert memory.peak_memory(torch.device("cpu"), lambda: pytest.fail("not counted")) is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_freed_memory_is_used_again_without_new_pages() -> None:
    new_pages, reused = (
        int(
            subprocess.run(
                [sys.executable, "-c", FAULTS.format(call=call)], capture_output=True, check=True
            ).stdout
        )
        for call in ("", "reuse_freed_memory()")
    )
    assert reused < new_pages / 2


def test_another_c_library_keeps_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: pytest.fail("no glibc"))
    memory.reuse_freed_memory()
