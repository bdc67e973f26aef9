"""Memory of devices: what a call takes at its peak, and freed memory that is used again."""

import platform
import subprocess
import sys

import pytest

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


def printed(program: str) -> int:
    return int(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not count it")
@pytest.mark.parametrize("call", ["", "reuse_freed_memory()"])
def test_the_peak_of_a_call_is_what_its_tensors_take_at_once(call: str) -> None:
    """40 + 60 MiB, whatever was freed before, and up to 10 that are free between them."""
    assert printed(PEAK.format(call=call)) / 2**20 == pytest.approx(100, abs=12)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_freed_memory_is_used_again_without_new_pages() -> None:
    new_pages, reused = (printed(FAULTS.format(call=call)) for call in ("", "reuse_freed_memory()"))
    assert reused < new_pages / 2
