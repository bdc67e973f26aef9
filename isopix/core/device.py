"""Hardware: device selection, data-sheet peaks, autocast and memory; all that queries it."""

import ctypes
import os
import platform
import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path

import PIL
import torch

from isopix.core import choices
from isopix.core.device_specs import DEVICE_SPECS

Precision = choices.Precision
DeviceLike = str | torch.device

DEVICE_BATCH_SIZE = 128
CPU_POSITIONS = 8192  # of a batch that stay in a CPU's caches, which is nearly twice as fast
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT_BYTES = 2**30
OLD_MAX_THRESHOLD = 2**25  # of older versions of glibc, which refuse a larger one
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of the group at the root of a container


def select_device(name: DeviceLike = "auto") -> torch.device:
    """Return the device; `auto` prefers CUDA, then MPS, then the CPU. Raises ValueError if not available."""
    name = re.sub("^(cpu|mps):0$", r"\1", str(name))  # of these there is one
    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        return torch.device("cuda" if "cuda" in available else available[-1])
    if name not in available:
        raise ValueError(f"device '{name}' is not available; available: auto, {', '.join(available)}")
    return torch.device(name)


def use_device(device: torch.device) -> None:
    """Make a GPU the one that this process uses where none is named; nothing for other devices."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def list_devices(name: DeviceLike = "auto") -> list[torch.device]:
    """Return all GPUs for `cuda`, and for `auto` if there are any, or else that of `select_device`."""
    device = select_device(name)
    if device.type == "cuda" and device.index is None:
        return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return [device]


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS; respects the limits of a batch system
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def compiles_by_default(device: torch.device) -> bool:
    """Return whether to compile where nobody chose: on a GPU, with Triton, where the compiler can link."""
    return device.type == "cuda" and find_spec("triton") is not None and " " not in torch.__file__


def describe_device(device: torch.device) -> str:
    """Return the device and the vendor's name of it, for records."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({_processor()})"


def peak_flops(device: torch.device, precision: Precision) -> float | None:
    """Return the data-sheet FLOP/s of a device, or None if unknown, as for fp32."""
    driver = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    peaks = (spec.bf16 for spec in DEVICE_SPECS.values() if driver in spec.drivers)
    return next(peaks, None) if precision == "bf16" else None


def peak_flops_by_device(precision: Precision) -> dict[str, float]:
    """Return the data-sheet FLOP/s at this precision by device name."""
    peaks = {name: spec.bf16 if precision == "bf16" else spec.fp32 for name, spec in DEVICE_SPECS.items()}
    return {name: peak for name, peak in peaks.items() if peak is not None}


def native_precision(device: torch.device) -> Precision:
    """Return bf16 where the device has instructions for its matrix products, fp32 where it is emulated."""
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    elif device.type == "mps":
        native = torch.backends.mps.is_built() and torch.backends.mps.is_macos_or_newer(14, 0)
    elif platform.machine().lower() in ("x86_64", "amd64"):
        native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    else:
        native = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return "bf16" if native else "fp32"


def has_matrix_units() -> bool:
    """Return whether the CPU has those of AMX; a constant for the compiler, as `lacks_matrix_units`."""
    return bool(torch.cpu._is_amx_tile_supported())


def lacks_matrix_units() -> bool:
    """Return whether the CPU multiplies in bf16 by AVX-512 alone, without AMX; constant for compilers."""
    return bool(torch.cpu._is_avx512_bf16_supported()) and not has_matrix_units()


for each in (has_matrix_units, lacks_matrix_units):
    # As torch.compiler.assume_constant_result does, which loads the compiler: a second of every command.
    each._dynamo_marked_constant = True  # type: ignore[attr-defined]


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Return an autocast context for `bf16`, and one without effect for `fp32`; weights are float32."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def synchronize(device: torch.device) -> None:
    """Wait for queued work, so that elapsed time can be measured."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def nvidia_driver() -> str | None:
    """Return the version of NVIDIA's driver, as its own tool says it; None without one."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(done.stdout.split()), None)


def runtime_environment(device: torch.device) -> dict[str, str | int]:
    """Return what bitwise reproducibility depends on: device, threads and versions."""
    return {
        "device": describe_device(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "pillow": PIL.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def _processor() -> str:
    name = platform.machine()
    with suppress(OSError), Path("/proc/cpuinfo").open() as info:
        name = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), name)
    instructions = torch.backends.cpu.get_cpu_capability()
    return f"{name}, {os.cpu_count()} cores" + f", {instructions}" * (instructions != "DEFAULT")


def total_memory(device: torch.device) -> int:
    """Return the bytes of memory of a device; of a CPU with swap, or the limit of its container (cgroup)."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    swap = _meminfo("SwapTotal") or 0
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + swap
    with suppress(OSError, ValueError):  # "max" is no limit
        total = min(total, int(CGROUP_LIMIT.read_text()))
    return total


def free_memory(device: torch.device) -> int:
    """Return the bytes of free memory of a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    total, available = total_memory(device), _meminfo("MemAvailable")
    return total if available is None else min(available, total)  # macOS has the total memory only


def eval_batch_size(positions: int, device: torch.device) -> int:
    """Return a fast number of images of this many positions for forward passes without gradients."""
    return max(1, CPU_POSITIONS // positions) if device.type == "cpu" else DEVICE_BATCH_SIZE


def peak_memory_so_far(device: torch.device) -> int:
    """Return the peak bytes of tensors on a GPU, or of this process on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
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
def report_memory(what: str, count: int = 0, bytes_each: int = 0) -> Iterator[None]:
    """Raise RuntimeError for an error of the allocator, ValueError for more than the machine's memory."""
    total = total_memory(torch.device("cpu"))
    if count * bytes_each > total:
        raise ValueError(f"not enough memory for {what}; {total // bytes_each:,} fit")
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RuntimeError) and not is_out_of_memory(error):
            raise
        raise RuntimeError(f"not enough memory for {what}") from error


def _meminfo(name: str) -> int | None:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None
