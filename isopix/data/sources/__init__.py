"""Sources of images. Each module of this package registers what it reads."""

from isopix.core.registry import import_modules

import_modules(__name__)
