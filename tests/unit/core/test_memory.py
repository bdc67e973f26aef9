"""Freed memory is used again."""

import platform
import subprocess
import sys

import pytest

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_freed_memory_is_used_again_without_new_pages() -> None:
    new_pages, reused = (printed(FAULTS.format(call=call)) for call in ("", "reuse_freed_memory()"))
    assert reused < new_pages / 2
