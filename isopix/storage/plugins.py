"""Which files a user has trained with as plugins: they are loaded with their runs, and no others."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from isopix.core.registry import load_plugin, plugins
from isopix.storage.cache import default_cache
from isopix.storage.provenance import hash_bytes, sha256_of


def remember_plugins() -> None:
    """Note for this user the plugins that are loaded, by path and content."""
    for plugin in plugins():
        mark = _mark(plugin.path, plugin.sha256)
        with suppress(OSError):
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()


def load_remembered(recorded: Iterable[Mapping[str, Any]]) -> None:
    """Load the plugins of a run that are noted for this user and have not changed.

    A record may be a stranger's, and loading a file runs it: this runs only what this user has run before.
    """
    loaded = {part for plugin in plugins() for part in plugin.parts}
    for plugin in recorded:
        file, mark = Path(plugin["path"]), _mark(plugin["path"], plugin["sha256"])
        own = mark.is_file() and mark.stat().st_uid == os.getuid()  # a cache may be shared
        if own and file.is_file() and sha256_of(file) == plugin["sha256"] and not loaded & {*plugin["parts"]}:
            load_plugin(file)


def _mark(path: str, sha256: str) -> Path:
    return default_cache() / "plugins" / hash_bytes(path.encode(), sha256.encode())
