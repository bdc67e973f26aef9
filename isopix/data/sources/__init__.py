"""Sources of images. Each module of this package registers what it reads; a new one needs no other edit."""

from importlib import import_module
from pkgutil import iter_modules

for each in iter_modules(__path__):
    import_module(f"{__name__}.{each.name}")
