"""The memory that a block of code takes at its peak, and its largest tensor."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class LargestTensor(TorchDispatchMode):
    """Counts the floating-point numbers of the largest result of an operation, forward or backward."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else [result]:
            if isinstance(each, torch.Tensor) and each.is_floating_point():
                self.elements = max(self.elements, each.numel())
        return result


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """Yield what returns the bytes by which the peak of this process is above what it held at the start.

    Linux only: writing 5 to clear_refs resets the peak (proc_pid_clear_refs(5)).
    """
    Path("/proc/self/clear_refs").write_text("5")
    start = _status("VmRSS")
    yield lambda: _status("VmHWM") - start


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
