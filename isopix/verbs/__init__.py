"""The verbs: each is one function, which is a command and a function of `isopix`.

Importing this package registers all of them. They import what they compute with inside their functions, so
that help needs no torch.
"""

from isopix.core.registry import import_modules
from isopix.core.verb import VERBS

__all__ = ["VERBS"]

import_modules(__name__)
