"""Parts of a recipe, registered under their noun by kind, by the package and by a user's own files."""

import abc
import dataclasses
import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform, get_type_hints

from isopix.core.choices import check_ranges
from isopix.core.files import read_regular
from isopix.core.text import expand_home, require_utf8

P = TypeVar("P", bound="Part")
PLUGIN_MODULE = "isopix_plugin_"  # how the names of the modules of plugins start


def import_modules(package: str) -> None:
    """Import all modules of a package, which register what they have."""
    for each in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{each.name}")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
class Part(abc.ABC):
    """Base of every registered part; its subclasses are frozen, keyword-only dataclasses of settings.

    The abstract base of a noun names it: `class BlockSpec(Part, noun="block")`.
    """

    noun: ClassVar[str]
    kind: ClassVar[str]
    registered_label: ClassVar[str] = ""

    def __init_subclass__(cls, noun: str = "") -> None:
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        if noun in _KINDS:
            raise TypeError(f"noun '{noun}' of {cls.__name__} has a base class already; derive from that one")
        if noun:
            cls.noun = noun
            _KINDS[noun] = {}

    def __post_init__(self) -> None:
        check_ranges(self)

    def label(self) -> str:
        """Return the name of the part in reports, model cards and errors."""
        return self.registered_label or self.kind.replace("_", " ")


_KINDS: dict[str, dict[str, type[Part]]] = {}


def register(kind: str, label: str = "") -> Callable[[type[P]], type[P]]:
    """Return a class decorator that registers a part as `kind` of its noun, with its label in reports."""

    def decorate(cls: type[P]) -> type[P]:
        noun = getattr(cls, "noun", None)
        if noun is None or not issubclass(cls, Part):
            raise TypeError(f"{cls.__name__} is not derived from the base class of a part")
        if inspect.isabstract(cls):
            missing = ", ".join(sorted(cls.__abstractmethods__))
            raise ValueError(f"class {cls.__name__} of {noun} '{kind}' does not define: {missing}")
        if cls in _KINDS[noun].values() and cls.kind != kind:
            raise ValueError(f"class {cls.__name__} is {noun} '{cls.kind}'; it cannot be '{kind}' too")
        other = _KINDS[noun].get(kind)
        if other is not None and not _defined_again(cls, other):
            by = f"class {other.__name__} of {other.__module__}"
            raise ValueError(f"{noun} '{kind}' is already registered by {by}")
        cls.kind, cls.registered_label = kind, label
        _KINDS[noun][kind] = cls
        return cls

    return decorate


def _defined_again(cls: type[Part], other: type[Part]) -> bool:
    """Whether a class replaces its own former definition, as when a cell of a notebook is run again."""
    same = (cls.__module__, cls.__qualname__) == (other.__module__, other.__qualname__)
    return same and not cls.__module__.startswith(PLUGIN_MODULE)


def nouns() -> tuple[str, ...]:
    """Return the nouns that parts are registered under."""
    return tuple(_KINDS)


def kinds(noun: str) -> Mapping[str, type[Part]]:
    """Return the registered parts of a noun by kind, in the order of their registration."""
    return MappingProxyType(_KINDS[noun])


def kinds_of(base: type[P]) -> dict[str, type[P]]:
    """Return the registered subclasses of `base` by kind: all parts of a noun, or of one family of it."""
    return {kind: cls for kind, cls in _KINDS[base.noun].items() if issubclass(cls, base)}


NAMES: dict[tuple[str, str], None] = {}
"""The noun and name of what files register that is not a part, such as a recipe; it counts as a plugin's."""


class Plugin(NamedTuple):
    """A user's file: its absolute path, the SHA-256 of its content, what it registered, as `noun kind`."""

    path: str
    sha256: str
    parts: tuple[str, ...]


_PLUGINS: dict[str, Plugin] = {}


def load_plugin(file: str | os.PathLike[str]) -> Plugin:
    """Import a Python file, whose parts are registered as it runs; a file is loaded once."""
    path = Path(expand_home(file))
    if not path.is_file():
        raise ValueError(f"plugin {path} is not a file")
    require_utf8("plugin", str(path.resolve()))
    full, digest = str(path.resolve()), hashlib.sha256(read_regular(path)).hexdigest()
    if full in _PLUGINS:
        if _PLUGINS[full].sha256 != digest:
            raise ValueError(f"plugin {path} has changed since it was loaded; start a new process")
        return _PLUGINS[full]
    module, named = f"{PLUGIN_MODULE}{path.stem}_{digest[:8]}", set(NAMES)
    _import(path, module)
    own = [(noun, kind) for noun, kind, _ in _parts_of(module)]
    added = tuple(f"{noun} {name}" for noun, name in [*own, *(each for each in NAMES if each not in named)])
    if not added:
        raise ValueError(f"plugin {path} registers no part; decorate a class with isopix.parts.register")
    _PLUGINS[full] = Plugin(full, digest, added)
    return _PLUGINS[full]


def _import(path: Path, name: str) -> None:
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec
    sys.modules[name] = module_from_spec(spec)
    try:
        loader.exec_module(sys.modules[name])
        for *_, cls in _parts_of(name):
            get_type_hints(cls, include_extras=True)  # raises if a setting has an unknown type
    except (Exception, SystemExit) as error:
        for noun, kind, _ in _parts_of(name):
            del _KINDS[noun][kind]
        del sys.modules[name]
        raise ValueError(f"plugin {path} cannot be imported: {type(error).__name__}: {error}") from error


def _parts_of(module: str) -> list[tuple[str, str, type[Part]]]:
    every = [(noun, kind, cls) for noun, found in _KINDS.items() for kind, cls in found.items()]
    return [each for each in every if each[2].__module__ == module]


def plugins() -> tuple[Plugin, ...]:
    """Return the plugins of this process, in the order in which they were loaded."""
    return tuple(_PLUGINS.values())


def require_plugins(recorded: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a note for each recorded plugin that has changed. Raises ValueError for one not loaded."""
    notes = []
    loaded = {part: each for each in plugins() for part in each.parts}
    for plugin in recorded:
        needed = [part for part in plugin["parts"] if not part.startswith("recipe ")]  # a run has its recipe
        if not needed or any(each.sha256 == plugin["sha256"] for each in plugins()):
            continue
        if missing := [part for part in needed if part not in loaded]:
            path = Path(plugin["path"])
            digest = hashlib.sha256(read_regular(path)).hexdigest() if path.is_file() else ""
            since = ", which has changed since" if digest not in ("", plugin["sha256"]) else ""
            raise ValueError(
                f"this run uses {', '.join(missing)} of plugin {path} (SHA-256 "
                f"{plugin['sha256'][:12]}){since}; load it with --plugin FILE or isopix.load_plugin(FILE)"
            )
        now = loaded[needed[0]]
        hashes = f"SHA-256 {plugin['sha256'][:12]} then, {now.sha256[:12]} now"
        notes.append(f"plugin {now.path} has changed since the run: {hashes}")
    return notes
