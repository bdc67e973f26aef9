"""Memory of devices: how much there is, what is free, and the peak so far."""

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

DEVICE_BATCH_SIZE = 128
CPU_POSITIONS = 8192  # of a batch that stay in a CPU's caches, which is nearly twice as fast
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT_BYTES = 2**30
OLD_MAX_THRESHOLD = 2**25  # of older versions of glibc, which refuse a larger one
# Versions 2 and 1, of the group at the root of a container.
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def total_memory(device: torch.device) -> int:
    """Return the bytes of memory of a device; of a CPU with swap, or the limit of its container (cgroup)."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    swap = _meminfo("SwapTotal") or 0
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + swap
    limits = [total]
    for file in CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # "max" is no limit
            limits.append(int(file.read_text()))
    return min(limits)


def free_memory(device: torch.device) -> int:
    """Return the bytes of free memory of a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    total, available = total_memory(device), _meminfo("MemAvailable")
    return total if available is None else min(available, total)  # macOS has the total memory only


def eval_batch_size(positions: int, device: torch.device) -> int:
    """Return a fast number of images of this many positions for forward passes without gradients."""
    return max(1, CPU_POSITIONS // positions) if device.type == "cpu" else DEVICE_BATCH_SIZE


def peak_memory_so_far(device: torch.device) -> int | None:
    """Return the peak bytes of tensors on a GPU, or of this process on a CPU; None if not counted."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if resource is None:
        return None
    unit = 1 if platform.system() == "Darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reuse_freed_memory() -> None:
    """Keep freed memory for the next tensors, where the C library is glibc, which would return it: new pages
    take about a quarter of the time of small networks on a CPU.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(M_MMAP_THRESHOLD, KEPT_BYTES) or libc.mallopt(M_MMAP_THRESHOLD, OLD_MAX_THRESHOLD)


def free_cached_memory(device: torch.device) -> None:
    """Give back the memory of a GPU that PyTorch keeps for later tensors."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error says that a device's or the machine's memory could not be allocated."""
    texts = ("DefaultCPUAllocator: can't allocate memory", "not enough memory", "MPS backend out of memory")
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in texts)


@contextmanager
def report_memory(what: str) -> Iterator[None]:
    """Turn an error of the allocator into a RuntimeError of one line: no memory for `what`."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise RuntimeError(f"not enough memory for {what}") from error


def _meminfo(name: str) -> int | None:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None
