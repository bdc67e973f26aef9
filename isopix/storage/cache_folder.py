"""The cache folder of this user."""

import os
from pathlib import Path


def default_cache() -> Path:
    """Return $ISOPIX_CACHE, or ~/.cache/isopix."""
    return Path(os.environ.get("ISOPIX_CACHE") or Path.home() / ".cache" / "isopix")
