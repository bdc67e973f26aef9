"""`isopix doctor`: check the installation, the device, memory and disks, and train a tiny network."""

import importlib
import importlib.util
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from isopix.core.table import Table
from isopix.core.text import format_bytes
from isopix.core.verb import verb
from isopix.core.version import __version__
from isopix.storage.result import Result
from isopix.verbs.options import DeviceLike

GIB = 2**30  # bytes
MIN_DISK, MIN_MEMORY, MIN_SHARED = GIB, 2 * GIB, 65 * 2**20  # bytes; containers have 64 MiB by default
MAX_DIFFERENCE = 1e-4  # nats: the same weights, in batches of other sizes
TINY = ("steps=30", "depth=2", "width=32", "batch_size=32", "lr=0.01", "log_every=1", "data.limit=200")
FOR_DEVELOPERS = ("dev", "tensorflow")  # extras of the tests
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and the action against a warning or a failure."""

    name: str
    status: Literal["ok", "warning", "failed"]
    found: str
    action: str = ""


class DoctorResult(Result):
    """All checks in order, the versions of packages, and what is missing of each extra."""

    ok: bool
    python: str
    platform: str
    packages: Mapping[str, str | None]
    extras: Mapping[str, Mapping[str, Any]]
    cache: str
    checks: tuple[Check, ...]

    @property
    def failure(self) -> str:
        """What is broken; warnings are not."""
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

    packages, extras = _requirements()
    checks = [Check("isopix", "ok", f"{__version__}, Python {platform.python_version()}")]
    checks += _package_checks(packages, extras)
    torch_error = _import_error("torch")  # it may be what is broken
    if torch_error:
        action = "install PyTorch for this machine: pip install --force-reinstall torch"
        checks.append(Check("torch", "failed", f"cannot be imported: {torch_error}", action))
    else:
        checks += [*_torchvision(), *_device_checks(device)]
    cache = default_cache()
    checks += _disks(cache)
    checks += [] if torch_error else training_checks(device)
    return DoctorResult(
        ok=all(each.status != "failed" for each in checks),
        python=platform.python_version(),
        platform=platform.platform(),
        packages={each.name: _version(each) for group in (packages, *extras.values()) for each in group},
        extras={
            name: {"missing": [str(each) for each in group if not _fits(each)], "install": _install(name)}
            for name, group in extras.items()
        },
        cache=str(cache),
        checks=tuple(checks),
    )


def _requirements() -> tuple[list[Any], dict[str, list[Any]]]:
    """Return the requirements of isopix, and those that each extra adds; none if it runs from its source."""
    from packaging.requirements import Requirement

    try:
        asked = list(map(Requirement, metadata.requires("isopix") or []))
    except metadata.PackageNotFoundError:
        return [], {}
    needed = [each for each in asked if each.marker is None or each.marker.evaluate({"extra": ""})]
    others = [(each, each.marker) for each in asked if each not in needed and each.marker]
    names = metadata.metadata("isopix").get_all("Provides-Extra") or []
    return needed, {
        name: [each for each, marker in others if marker.evaluate({"extra": name})]
        for name in names
        if name not in FOR_DEVELOPERS
    }


def _version(requirement: Any) -> str | None:
    try:
        return metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return None


def _fits(requirement: Any) -> bool:
    version = _version(requirement)
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _install(extra: str) -> str:
    return f"pip install 'isopix[{extra}]'"


def _import_error(module: str) -> str:
    """Import a module, and return in one line why that fails; empty if it does not."""
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever the module does
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")
    return ""


def _package_checks(packages: list[Any], extras: Mapping[str, list[Any]]) -> Iterator[Check]:
    if not packages:
        yield Check("packages", "warning", "isopix runs from its source", "install it: pip install -e .")
        return
    wrong = [each for each in packages if not _fits(each)]
    for each in wrong:
        version, required = _version(each), f"{each.name}{each.specifier}"
        there = f"version {version}" if version else "missing"
        yield Check(each.name, "failed", f"{there}; needed: {required}", f"pip install '{required}'")
    if not wrong:
        yield Check("packages", "ok", f"all {len(packages)} that are needed")
    present = [name for name, group in extras.items() if all(map(_fits, group))]
    absent = [name for name in extras if name not in present]
    others = f"; not installed: {', '.join(absent)} ({_install('NAME')})" if absent else ""
    yield Check("extras", "ok", f"{', '.join(present) or 'none'}{others}")


def _torchvision() -> Iterator[Check]:
    """Check torchvision where it is installed: isopix does not use it, but transformers does."""
    if importlib.util.find_spec("torchvision") is None:
        return
    if error := _import_error("torchvision"):
        action = "pip uninstall torchvision, or install the version for this torch"
        yield Check("torchvision", "failed", f"cannot be imported, and breaks transformers: {error}", action)
    else:
        yield Check("torchvision", "ok", "can be imported")


def _device_checks(device: DeviceLike) -> Iterator[Check]:
    """Yield what is known of the device, its driver, the threads, the precision and the memory."""
    import torch

    from isopix.core import device as hardware
    from isopix.core.memory import free_memory, total_memory

    chosen = hardware.select_device(device)
    yield Check("device", "ok", hardware.describe_device(chosen))
    build, driver = hardware.cuda_build(), hardware.nvidia_driver()
    found = f"driver {driver or 'none'}, torch is built for {f'CUDA {build}' if build else 'the CPU'}"
    if driver and not hardware.has_cuda():
        older = "update the driver, or install a build of torch for an older CUDA"
        action = older if build else "to use the GPU, install a CUDA build of torch"
        yield Check("cuda", "warning", f"{found}, which cannot use the GPU", action)
    else:
        yield Check("cuda", "ok", found)
    yield Check("threads", "ok", f"{torch.get_num_threads()} of {hardware.available_cores()} cores")
    precision = hardware.native_precision(chosen)
    emulated = ", as bf16 would be emulated" if precision == "fp32" else ""
    yield Check("precision", "ok", f"{precision}{emulated}")
    for each in dict.fromkeys((torch.device("cpu"), chosen)):
        name = "memory" if each.type == "cpu" else f"memory of {each.type}"
        action = "close other programs, or train smaller batches: batch_size=8"
        yield _space(name, (free_memory(each), total_memory(each)), free_memory(each) < MIN_MEMORY, action)
    if SHARED_MEMORY.is_dir():
        total, _, free = shutil.disk_usage(SHARED_MEMORY)
        action = "start the container with more, as in docker run --shm-size 2g, or train with data.workers=0"
        yield _space("shared memory", (free, total), total < MIN_SHARED, action)


def _space(name: str, sizes: tuple[int, int], little: bool, action: str) -> Check:
    found = f"{format_bytes(sizes[0])} free of {format_bytes(sizes[1])}"
    return Check(name, "warning", found, action) if little else Check(name, "ok", found)


def _disks(cache: Path) -> Iterator[Check]:
    from isopix.storage.cache import folder_problem, free_bytes, size_of

    for name, folder in (("disk", Path.cwd()), ("disk of the cache", cache)):
        free = free_bytes(folder)
        found = f"{format_bytes(free)} free for {folder}"
        action = "free some space, or set ISOPIX_CACHE to another disk" if free < MIN_DISK else ""
        yield Check(name, "warning" if action else "ok", found, action)
    if problem := folder_problem(cache):
        yield Check("cache", "failed", f"{cache}: {problem}", "set ISOPIX_CACHE to a folder on a local disk")
    else:
        used = format_bytes(size_of(cache))
        yield Check("cache", "ok", f"{cache}, {used}; files are replaced and locked as needed")


def training_checks(device: DeviceLike) -> Iterator[Check]:
    """Yield whether the loss of a tiny training falls, and whether its weights are saved and read unchanged.

    Errors become failures.
    """
    from isopix.verbs.pretrain import pretrain

    with tempfile.TemporaryDirectory(prefix="isopix-doctor-") as name:
        try:
            run = pretrain("igpt.digits", *TINY, data="digits", out=Path(name, "run"), device=device)
            yield _loss(run)
            yield _weights(run, Path(name), device)
        except (ValueError, RuntimeError, OSError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            yield Check("training", "failed", reason, "see the other checks; else report it as a bug")


def _loss(run: Any) -> Check:
    losses = [record["loss_nats"] for record in run.metrics.history if record["kind"] == "train"]
    found = f"loss {losses[0]:.3f} to {losses[-1]:.3f} nats in {len(losses)} steps"
    if losses[-1] < 0.9 * losses[0]:
        return Check("training", "ok", found)
    return Check("training", "failed", found, f"{run.run.device} computes wrong numbers: try --device cpu")


def _weights(run: Any, folder: Path, device: DeviceLike) -> Check:
    """Check that the saved network has the loss of the trained one, and that a copy has the same weights."""
    import torch

    from isopix.pretrained.run import load, save
    from isopix.verbs.verify import verify

    trained, saved = run.metrics.test["loss_nats"], verify(run, device=device).loss_nats
    save(run.model, folder / "copy")
    copy = load(folder / "copy", device=device).state_dict()
    if abs(trained - saved) > MAX_DIFFERENCE:
        found = f"test loss {trained:.4f} nats in training, {saved:.4f} when loaded"
        return Check("saved weights", "failed", found, "check the disk; else report it as a bug")
    if not all(torch.equal(copy[name], tensor) for name, tensor in run.model.state_dict().items()):
        return Check("saved weights", "failed", "a copy differs from its original", "check the disk")
    return Check("saved weights", "ok", f"loaded unchanged: test loss {saved:.4f} nats")
