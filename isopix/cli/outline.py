"""Commands without what they compute with: words are parsed, and help is shown, before PyTorch loads."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# What options are made of: modules that load fast. All others of the package are outlined.
OPTIONS = (
    "isopix.cli",
    "isopix.core.choices",
    "isopix.core.progress",
    "isopix.core.ranks",
    "isopix.core.registry",
    "isopix.core.text",
    "isopix.core.signals",
    "isopix.core.slurm",
)
PACKAGES = ("isopix.core",)  # of some of these modules
OUTLINED = ("isopix", "torch")


class _NameType(type):
    """Makes classes that can be written in annotations and derived from, and that have no value."""

    def __getattr__(cls, name: str) -> type:
        return _public_name(name)

    def __getitem__(cls, _: object) -> type:
        return cls

    def __repr__(cls) -> str:
        raise TypeError(f"{cls.__name__} is of an outlined module; options take it from isopix.core.choices")


class _Outline(ModuleType):
    """A module of which every name is only a name."""

    def __getattr__(self, name: str) -> type:
        return _public_name(name)


class _Finder(MetaPathFinder, Loader):
    """Finds an outline for each module that options do not need."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in OUTLINED or fullname in PACKAGES:
            return None
        if any(fullname == each or fullname.startswith(f"{each}.") for each in OPTIONS):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Outline(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty."""


def _public_name(name: str) -> type:
    """Return a class of this name; raises AttributeError for the names of Python's protocols."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _NameType(name, (), {})


@contextmanager
def outlines() -> Iterator[None]:
    """Import what options need, and outlines of all other modules of the package that are not loaded yet.

    Afterwards what was loaded is forgotten, so that the next import is of the modules themselves.
    """
    finder, before = _Finder(), set(sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in sys.modules.keys() - before:
            if name.partition(".")[0] in OUTLINED:
                _forget(name)
        importlib.invalidate_caches()


def _forget(name: str) -> None:
    """Remove a module from the loaded ones and from its package."""
    module = sys.modules.pop(name)
    parent, _, last = name.rpartition(".")
    if vars(sys.modules.get(parent, ModuleType(parent))).get(last) is module:
        delattr(sys.modules[parent], last)
