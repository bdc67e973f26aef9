"""The energy that a device has used, by a counter of NVIDIA's driver or of the processor."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch

from isopix.core.device import gpu_uuid

POWERCAP = Path("/sys/class/powercap")  # of Linux; the counters of Intel's and AMD's processors (RAPL)
MICRO, MILLI = 1e-6, 1e-3

Counter = Callable[[], float]


def energy_counter(device: torch.device) -> Counter | None:
    """Return what returns the joules that a device has used since an earlier moment; None where nothing
    counts them, or this user may not read it.

    A GPU of NVIDIA needs the package nvidia-ml-py. A CPU is all processors of the machine, with all that runs
    there; their counters are usually for root alone.
    """
    if device.type == "cuda":
        return _gpu_counter(device)
    if device.type == "cpu":
        return _cpu_counter(POWERCAP)
    return None


def _gpu_counter(device: torch.device) -> Counter | None:
    try:
        driver = import_module("pynvml")
    except ImportError:
        return None
    try:
        driver.nvmlInit()
        handle = driver.nvmlDeviceGetHandleByUUID(gpu_uuid(device))
        driver.nvmlDeviceGetTotalEnergyConsumption(handle)  # since Volta, and not for parts of a GPU
    except driver.NVMLError:
        return None
    return lambda: MILLI * driver.nvmlDeviceGetTotalEnergyConsumption(handle)


def _cpu_counter(folder: Path) -> Counter | None:
    try:
        zones = [each for each in sorted(folder.glob("intel-rapl:*")) if _is_package(each)]
        packages = [_Package(each) for each in zones]
    except (OSError, ValueError):
        return None
    return (lambda: sum(each.joules() for each in packages)) if packages else None


def _is_package(zone: Path) -> bool:
    """Whether a counter is of a whole processor; others are of parts of it, or of more."""
    return (zone / "name").read_text().startswith("package")


class _Package:
    """The counter of one processor, which begins again at zero after hours or minutes.

    Raises OSError where it cannot be read.
    """

    def __init__(self, zone: Path):
        self.file = zone / "energy_uj"
        self.range = int((zone / "max_energy_range_uj").read_text()) + 1
        self.last, self.total = self._read(), 0

    def joules(self) -> float:
        """Return the joules since this object was made."""
        now = self._read()
        self.total += (now - self.last) % self.range
        self.last = now
        return MICRO * self.total

    def _read(self) -> int:
        return int(self.file.read_text())
