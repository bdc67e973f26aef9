"""`isopix doctor`: check the installation and the device, and train a tiny network."""

import importlib
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from isopix.core.text import Table, error_line
from isopix.core.verb import verb
from isopix.core.version import __version__
from isopix.storage.atomic import scratch_folder
from isopix.storage.result import Result
from isopix.verbs.options import DeviceLike

TINY = ("steps=30", "depth=2", "width=32", "batch_size=32", "lr=0.01", "log_every=1", "data.limit=200")


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and the action against a warning or a failure."""

    name: str
    status: Literal["ok", "warning", "failed"]
    found: str
    action: str = ""


class DoctorResult(Result):
    """All checks in order."""

    checks: tuple[Check, ...]

    @property
    def failure(self) -> str:
        failed = [each.name for each in self.checks if each.status == "failed"]
        return f"broken: {', '.join(failed)}" if failed else ""

    def tables(self) -> list[Table]:
        rows = [(each.name, each.status, each.found) for each in self.checks]
        return [Table("isopix doctor", ["check", "status", "found"], rows)]

    def notes(self) -> list[str]:
        return [f"{each.name}: {each.action}" for each in self.checks if each.action]


@verb()
def doctor(*, device: DeviceLike = "auto") -> DoctorResult:
    """Check versions and device, and train a tiny network for a few seconds.

    Prints how to fix each problem. Exits with code 1 if a check fails.

    Example: isopix doctor
    """
    system = f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
    checks = [_check("isopix", system)]
    if torch_error := _import_error("torch"):
        action = "install PyTorch for this machine: pip install --force-reinstall torch"
        checks.append(_check("torch", f"cannot be imported: {torch_error}", failed=action))
    else:
        checks += [*_device_checks(device), *training_checks(device)]
    return DoctorResult(checks=tuple(checks))


def _check(name: str, found: str, *, warning: str = "", failed: str = "") -> Check:
    return Check(name, "failed" if failed else "warning" if warning else "ok", found, failed or warning)


def _import_error(module: str) -> str:
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever the module does
        return f"{type(error).__name__}: {error_line(error)}"
    return ""


def _device_checks(device: DeviceLike) -> Iterator[Check]:
    import torch

    from isopix.core import device as hardware

    chosen = hardware.select_device(device)
    yield _check("device", hardware.describe_device(chosen))
    driver, cuda = hardware.nvidia_driver(), torch.version.cuda
    found = (
        f"driver {driver or 'none'}, torch {torch.__version__} for {f'CUDA {cuda}' if cuda else 'the CPU'}"
    )
    unused = driver and hardware.select_device().type != "cuda"
    yield _check("cuda", found, warning="install a build of torch for CUDA of this driver" if unused else "")
    yield _check("threads", f"{torch.get_num_threads()} of {hardware.available_cores()} cores")
    yield _check("precision", hardware.native_precision(chosen))


def training_checks(device: DeviceLike) -> Iterator[Check]:
    """Yield whether the loss of a tiny training falls."""
    from isopix.core.progress import quiet
    from isopix.verbs.pretrain import pretrain

    with scratch_folder("doctor") as name, quiet():
        try:
            run = pretrain("igpt.digits", *TINY, data="digits", out=Path(name, "run"), device=device)
            losses = [record["loss_nats"] for record in run.log if record["kind"] == "train"]
            found = f"loss {losses[0]:.3f} to {losses[-1]:.3f} nats in {len(losses)} steps"
            wrong = "" if losses[-1] < 0.9 * losses[0] else f"{run.run.device} computes wrong numbers"
            yield _check("training", found, failed=f"{wrong}: try --device cpu" if wrong else "")
        except (ValueError, RuntimeError, OSError) as error:
            yield _check("training", error_line(error), failed="see the other checks; else report a bug")
