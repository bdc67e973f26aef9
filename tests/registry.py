"""Registering parts in a test, without other tests seeing them."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

from isopix.core import registry
from isopix.recipes.registry import RECIPES, SINGLE


@contextmanager
def restored_registry() -> Iterator[None]:
    """Forget afterwards what is registered inside, but for the package's own parts.

    They are imported here and not above, so that the type checker of the tests sees them.
    """
    importlib.import_module("isopix.parts")
    kinds = {noun: dict(found) for noun, found in registry._KINDS.items()}
    tables = (registry.NAMES, registry._PLUGINS, RECIPES, SINGLE)
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for noun, found in registry._KINDS.items():
            found.clear()
            found.update(kinds.get(noun, {}))
        for table, entries in zip(tables, before, strict=True):
            table.clear()
            table.update(entries)
