"""`isopix doctor`: check the installation, the device, memory and disks, and train a tiny network."""

import importlib
import importlib.util
import platform
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from isopix.core.text import Table, error_line, format_bytes
from isopix.core.verb import verb
from isopix.core.version import DISTRIBUTION, __version__
from isopix.runs.results import LossResult
from isopix.storage.atomic import scratch_folder
from isopix.storage.result import Result
from isopix.verbs.options import DeviceLike

GIB = 2**30  # bytes
MIN_DISK, MIN_MEMORY, MIN_SHARED = GIB, 2 * GIB, 65 * 2**20  # bytes; containers have 64 MiB by default
MAX_DIFFERENCE = 1e-4  # nats: the same weights, in batches of other sizes
TINY = ("steps=30", "depth=2", "width=32", "batch_size=32", "lr=0.01", "log_every=1", "data.limit=200")
FOR_DEVELOPERS = ("dev", "tensorflow")  # extras of the tests
SHARED_MEMORY = Path("/dev/shm")
INSTALL = "pip install -e '.[{}]'"  # of an extra


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and the action against a warning or a failure."""

    name: str
    status: Literal["ok", "warning", "failed"]
    found: str
    action: str = ""


class DoctorResult(Result):
    """All checks in order, and the versions of packages."""

    packages: Mapping[str, str | None]
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
    """Check versions, device, memory, disks and the cache folder, and train a tiny network for a few seconds.

    Prints what to do about each problem. Exits with code 1 if a check fails.

    Example: isopix doctor
    """
    from isopix.storage.cache import default_cache

    extras, cache = _requirements(), default_cache()
    packages = extras.pop("")
    system = f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
    checks = [_check("isopix", system), *_package_checks(packages, extras)]
    torch_error = _import_error("torch")
    if torch_error:
        action = "install PyTorch for this machine: pip install --force-reinstall torch"
        checks.append(_check("torch", f"cannot be imported: {torch_error}", failed=action))
    else:
        checks += _device_checks(device)
    checks += _disks(cache)
    checks += [] if torch_error else training_checks(device)
    return DoctorResult(
        packages={each.name: _version(each) for group in (packages, *extras.values()) for each in group},
        checks=tuple(checks),
    )


def _check(name: str, found: str, *, warning: str = "", failed: str = "") -> Check:
    return Check(name, "failed" if failed else "warning" if warning else "ok", found, failed or warning)


def _requirements() -> dict[str, list[Any]]:
    """Return what isopix requires, by "" and by extra; nothing if it runs from its source."""
    from packaging.requirements import Requirement

    try:
        extras = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
        asked = list(map(Requirement, metadata.requires(DISTRIBUTION) or []))
    except metadata.PackageNotFoundError:
        return {"": []}
    found: dict[str, list[Any]] = {name: [] for name in ("", *extras) if name not in FOR_DEVELOPERS}
    for each in asked:
        fitting = [name for name in found if each.marker is None or each.marker.evaluate({"extra": name})]
        for name in fitting[:1]:  # what is always needed is of no extra
            found[name].append(each)
    return found


def _version(requirement: Any) -> str | None:
    try:
        return metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return None


def _fits(requirement: Any) -> bool:
    version = _version(requirement)
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _import_error(module: str) -> str:
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever the module does
        return f"{type(error).__name__}: {error_line(error)}"
    return ""


def _package_checks(packages: list[Any], extras: Mapping[str, list[Any]]) -> Iterator[Check]:
    if not packages:
        yield _check("packages", "isopix runs from its source", warning="install it: pip install -e .")
        return
    wrong = [each for each in packages if not _fits(each)]
    for each in wrong:
        version, required = _version(each), f"{each.name}{each.specifier}"
        there = f"version {version}" if version else "missing"
        yield _check(each.name, f"{there}; needed: {required}", failed=f"pip install '{required}'")
    if not wrong:
        yield _check("packages", f"all {len(packages)} that are needed")
    present = [name for name, group in extras.items() if all(map(_fits, group))]
    absent = [name for name in extras if name not in present]
    others = f"; not installed: {', '.join(absent)} ({INSTALL.format('NAME')})" if absent else ""
    yield _check("extras", f"{', '.join(present) or 'none'}{others}")


def _device_checks(device: DeviceLike) -> Iterator[Check]:
    import torch

    from isopix.core import device as hardware

    chosen = hardware.select_device(device)
    if importlib.util.find_spec("torchvision") and (error := _import_error("torchvision")):
        action = "pip uninstall torchvision, or install the version for this torch"
        yield _check("torchvision", f"breaks transformers, as it cannot be imported: {error}", failed=action)
    yield _check("device", hardware.describe_device(chosen))
    driver, build = hardware.nvidia_driver(), torch.version.cuda
    found = f"driver {driver or 'none'}, torch is built for {f'CUDA {build}' if build else 'the CPU'}"
    unused = driver and hardware.select_device().type != "cuda"
    yield _check("cuda", found, warning="install a build of torch for CUDA of this driver" if unused else "")
    yield _check("threads", f"{torch.get_num_threads()} of {hardware.available_cores()} cores")
    yield _check("precision", hardware.native_precision(chosen))
    action = "close other programs, or train smaller batches: batch_size=8"
    for each in dict.fromkeys((torch.device("cpu"), chosen)):
        name = "memory" if each.type == "cpu" else f"memory of {each.type}"
        yield _space(name, hardware.free_memory(each), hardware.total_memory(each), MIN_MEMORY, action)
    if SHARED_MEMORY.is_dir():
        total, _, free = shutil.disk_usage(SHARED_MEMORY)
        action = "start the container with more, as in docker run --shm-size 2g, or train with data.workers=0"
        yield _space("shared memory", free, total, MIN_SHARED, action)


def _space(name: str, free: int, total: int, least: int, action: str) -> Check:
    found = f"{format_bytes(free)} free of {format_bytes(total)}"
    return _check(name, found, warning=action if free < least else "")


def _disks(cache: Path) -> Iterator[Check]:
    from isopix.storage.cache import folder_problem, free_bytes, size_of

    for name, folder in (("disk", Path.cwd()), ("disk of the cache", cache)):
        free = free_bytes(folder)
        action = "free some space, or set ISOPIX_CACHE to another disk" if free < MIN_DISK else ""
        yield _check(name, f"{format_bytes(free)} free for {folder}", warning=action)
    problem = folder_problem(cache)
    action = "set ISOPIX_CACHE to a folder on a local disk" if problem else ""
    yield _check("cache", f"{cache}: {problem or format_bytes(size_of(cache))}", failed=action)


def training_checks(device: DeviceLike) -> Iterator[Check]:
    """Yield whether the loss of a tiny training falls, and whether its weights are saved and loaded."""
    from isopix.core.progress import quiet
    from isopix.verbs.evaluate import evaluate
    from isopix.verbs.pretrain import pretrain

    with scratch_folder("doctor") as name, quiet():
        try:
            run = pretrain("igpt.digits", *TINY, data="digits", out=Path(name, "run"), device=device)
            losses = [record["loss_nats"] for record in run.log if record["kind"] == "train"]
            found = f"loss {losses[0]:.3f} to {losses[-1]:.3f} nats in {len(losses)} steps"
            wrong = "" if losses[-1] < 0.9 * losses[0] else f"{run.run.device} computes wrong numbers"
            yield _check("training", found, failed=f"{wrong}: try --device cpu" if wrong else "")
            run.model.save(Path(name, "copy"))
            trained, loaded = run.losses["test"], evaluate(Path(name, "copy"), device=device)
            assert isinstance(loaded, LossResult), "it has no classes"
            found = f"test loss {trained:.4f} nats in training, {loaded.loss_nats:.4f} nats when loaded"
            wrong = "check the disk; else report it as a bug"
            same = abs(trained - loaded.loss_nats) <= MAX_DIFFERENCE
            yield _check("saved weights", found, failed="" if same else wrong)
        except (ValueError, RuntimeError, OSError) as error:
            yield _check("training", error_line(error), failed="see the other checks; else report a bug")
