"""The verbs: each is one function, a command and a function of `isopix`, registered by this import."""

from isopix.core.registry import import_modules
from isopix.core.verb import VERBS

__all__ = ["VERBS"]

import_modules(__name__)
