"""Provenance: the device, versions, commit and command that produced a run or a file in it."""

import hashlib
import subprocess
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from isopix.core.registry import plugins
from isopix.core.version import __version__

CHECKOUT = Path(__file__).parents[2]


def environment(runtime: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new random id of the run, the `runtime` (device, threads and versions), the commit if there is
    one, the command and its working directory.
    """
    commit = git_commit(CHECKOUT)
    return {
        "run_id": uuid.uuid4().hex,
        **runtime,
        "isopix": __version__,
        **({"commit": commit} if commit else {}),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "folder": str(Path.cwd()),
        "command": ["isopix", *sys.argv[1:]],
    }


def with_provenance(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with the time, the command as typed, its working directory and any plugins."""
    written = datetime.now(UTC).isoformat(timespec="seconds")
    command = ["isopix", *sys.argv[1:]]
    loaded = plugin_records() if plugins() else {}
    return {**values, "written": written, "folder": str(Path.cwd()), "command": command, **loaded}


def call_record(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call of a verb for its record: with the time, the version and the commit, too."""
    return with_provenance({**call, "isopix": __version__, "commit": _commit()})


@cache
def _commit() -> str | None:
    return git_commit(CHECKOUT)


def plugin_records() -> dict[str, Any]:
    """Return the loaded plugins for records of a run and of its results, as `plugins`."""
    return {"plugins": [{**plugin._asdict(), "parts": list(plugin.parts)} for plugin in plugins()]}


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Return six digits of a hash, for file names: equal settings replace a file, others add one."""
    return hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:6]


def git_commit(checkout: Path) -> str | None:
    """Return the commit of a checkout, with `-dirty` if tracked files have been changed.

    None for an installed package, even one inside another project's checkout, and without git.
    """
    if not (checkout / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
