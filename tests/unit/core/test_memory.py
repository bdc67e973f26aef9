"""Memory of devices: freed memory is used again."""

import platform
import subprocess
import sys

import pytest

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
