"""The verbs: each is one function, which is a command and a function of `isopix`.

Importing this package registers all of them. They import what they compute with inside their functions, so
that help needs no torch.
"""

import importlib
import pkgutil

from isopix.core.verb import VERBS

__all__ = ["VERBS"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
