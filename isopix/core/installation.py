"""What is installed: the packages that isopix needs, those of its extras, and whether they can be imported.

Nothing here imports PyTorch before it is asked to, as it may be what is broken.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from importlib import metadata
from typing import NamedTuple

from packaging.requirements import Requirement

PACKAGE = "isopix"
FOR_DEVELOPERS = ("dev", "tensorflow")  # extras of the tests


class Package(NamedTuple):
    """A package that isopix asks for: what is asked, and the version that is installed, if any."""

    name: str
    required: str
    version: str | None
    fits: bool


class Installation(NamedTuple):
    """The packages that are needed, and those of each extra."""

    needed: list[Package]
    extras: dict[str, list[Package]]


def installation() -> Installation | None:
    """Return what is installed; None if isopix itself is not, but runs from its source."""
    try:
        lines = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    asked = list(map(Requirement, lines))
    needed = [_package(each) for each in asked if each.marker is None or each.marker.evaluate({"extra": ""})]
    names = metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    extras = {
        name: [_package(each) for each in asked if each.marker and _only_with(each, name)]
        for name in names
        if name not in FOR_DEVELOPERS
    }
    return Installation(needed, extras)


def import_error(module: str) -> str:
    """Import a module, and return in one line why that fails; empty if it does not."""
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever the module does
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")
    return ""


def is_installed(module: str) -> bool:
    """Return whether a module is there, without importing it."""
    return importlib.util.find_spec(module) is not None


def wrong_versions(packages: Sequence[Package]) -> list[Package]:
    """Return the packages that are missing or of a version that isopix does not allow."""
    return [each for each in packages if not each.fits]


def _only_with(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _package(requirement: Requirement) -> Package:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        version = None
    fits = version is not None and requirement.specifier.contains(version, prereleases=True)
    return Package(requirement.name, f"{requirement.name}{requirement.specifier}", version, fits)
