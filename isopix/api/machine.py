"""Check an installation and its machine from Python: doctor."""

import importlib
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isopix.api.arguments import checked
from isopix.core.check import Check
from isopix.core.installation import (
    Installation,
    import_error,
    installation,
    is_installed,
    wrong_versions,
)
from isopix.core.text import format_bytes
from isopix.core.version import __version__
from isopix.storage.cache_folder import default_cache
from isopix.storage.folder_test import folder_problem, free_bytes, size_of

MIN_DISK = 2**30  # bytes


@dataclass(frozen=True)
class DoctorOutput:
    """All checks in order; `record` has them, the versions of packages, and what is missing of each extra."""

    checks: tuple[Check, ...]
    record: Mapping[str, Any]

    @property
    def failed(self) -> tuple[Check, ...]:
        """What is broken; warnings are not."""
        return tuple(check for check in self.checks if check.status == "failed")


@checked
def doctor(*, device: object = "auto") -> DoctorOutput:
    """Check versions, the device, memory, disks and the cache folder, and train a tiny network on `device`,
    the name of one or a `torch.device`, which takes a few seconds. Raises ValueError for a device that is not
    available.
    """
    found = installation()
    checks = [Check("isopix", "ok", f"{__version__}, Python {platform.python_version()}"), *_packages(found)]
    torch_error = import_error("torch")
    if torch_error:
        action = "install PyTorch for this machine: pip install --force-reinstall torch"
        checks.append(Check("torch", "failed", f"cannot be imported: {torch_error}", action))
    else:
        checks += _torchvision()
        # It imports PyTorch, which may be what is broken.
        tests = importlib.import_module("isopix.api.self_test")
        checks += tests.device_checks(str(device))
    cache = default_cache()
    checks += _disks(cache)
    if not torch_error:
        checks += tests.training_checks(str(device))
    record = {
        "isopix": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **_versions(found),
        "cache": str(cache),
        "ok": all(check.status != "failed" for check in checks),
        "checks": [check._asdict() for check in checks],
    }
    return DoctorOutput(tuple(checks), record)


def _versions(found: Installation | None) -> dict[str, Any]:
    """Return the versions of all packages, and the missing packages of each extra with their command."""
    if found is None:
        return {"packages": {}, "extras": {}}
    packages = [*found.needed, *(each for group in found.extras.values() for each in group)]
    extras = {
        name: {"missing": [each.required for each in wrong_versions(group)], "install": _install(name)}
        for name, group in found.extras.items()
    }
    return {"packages": {each.name: each.version for each in packages}, "extras": extras}


def _install(extra: str) -> str:
    return f"pip install 'isopix[{extra}]'"


def _packages(found: Installation | None) -> Iterator[Check]:
    if found is None:
        yield Check("packages", "warning", "isopix runs from its source", "install it: pip install -e .")
        return
    wrong = wrong_versions(found.needed)
    for each in wrong:
        there = f"version {each.version}" if each.version else "missing"
        yield Check(
            each.name, "failed", f"{there}; needed: {each.required}", f"pip install '{each.required}'"
        )
    if not wrong:
        yield Check("packages", "ok", f"all {len(found.needed)} that are needed")
    present = [name for name, group in found.extras.items() if not wrong_versions(group)]
    absent = [name for name in found.extras if name not in present]
    others = f"; not installed: {', '.join(absent)} ({_install('NAME')})" if absent else ""
    yield Check("extras", "ok", f"{', '.join(present) or 'none'}{others}")


def _torchvision() -> Iterator[Check]:
    """Check torchvision where it is installed: isopix does not use it, but transformers does."""
    if not is_installed("torchvision"):
        return
    error = import_error("torchvision")
    if error:
        action = "pip uninstall torchvision, or install the version for this torch"
        yield Check("torchvision", "failed", f"cannot be imported, and breaks transformers: {error}", action)
    else:
        yield Check("torchvision", "ok", "can be imported")


def _disks(cache: Path) -> Iterator[Check]:
    for name, folder in (("disk", Path.cwd()), ("disk of the cache", cache)):
        free = free_bytes(folder)
        found = f"{format_bytes(free)} free for {folder}"
        little = free < MIN_DISK
        action = "free some space, or set ISOPIX_CACHE to another disk" if little else ""
        yield Check(name, "warning" if little else "ok", found, action)
    problem = folder_problem(cache)
    if problem:
        yield Check("cache", "failed", f"{cache}: {problem}", "set ISOPIX_CACHE to a folder on a local disk")
    else:
        found = f"{cache}, {format_bytes(size_of(cache))}; files are replaced and locked as needed"
        yield Check("cache", "ok", found)
