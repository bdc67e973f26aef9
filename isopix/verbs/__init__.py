"""The verbs: each is one function, a command and a function of `isopix`, registered by this import."""

import importlib
import pkgutil

from isopix.core.verb import VERBS

__all__ = ["VERBS"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
