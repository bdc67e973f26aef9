"""Pickled models: the plugins that their classes are from are loaded before them."""

import hashlib
from pathlib import Path

from torch import nn

from isopix.core.registry import Plugin, load_plugin, plugins
from isopix.runs.load import LoadedRun


def used_plugins(loaded: LoadedRun) -> list[Plugin]:
    """Return the plugins of this process that register the parts that a run has of plugins."""
    recorded = loaded.environment.plugins if loaded.environment else ()
    needed = {part for each in recorded for part in each["parts"]}
    return [plugin for plugin in plugins() if needed & set(plugin.parts)]


def new_with_plugins(cls: type[nn.Module], needed: list[Plugin]) -> nn.Module:
    """Return an object to be filled with its state, after loading from where they were the plugins that this
    process has not loaded. Raises ValueError that names the first one that is no longer there or has changed.
    """
    for plugin in needed:
        if all(each.sha256 != plugin.sha256 for each in plugins()):
            path = Path(plugin.path)
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != plugin.sha256:
                problem = "has changed" if path.is_file() else "is not there"
                raise ValueError(
                    f"this pickle uses {', '.join(plugin.parts)} of plugin {path} "
                    f"(SHA-256 {plugin.sha256[:12]}), which {problem}; "
                    "load the same file with isopix.load_plugin(FILE) first"
                )
            load_plugin(path)
    return cls.__new__(cls)
