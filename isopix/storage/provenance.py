"""Surroundings: where, with what and by which command a run, or a file in it, is made, as it tells itself."""

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import isopix
from isopix.core.device import runtime_environment

CHECKOUT = Path(isopix.__file__).parents[1]


def environment(device: torch.device) -> dict[str, Any]:
    """Device, threads, versions, the commit if there is one, and the command with its working directory."""
    found = git_commit(CHECKOUT)
    return {
        **runtime_environment(device),
        "isopix": isopix.__version__,
        **({"commit": found} if found else {}),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "folder": str(Path.cwd()),
        "command": ["isopix", *sys.argv[1:]],
    }


def with_provenance(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers, when they were written, and the command as typed, with its working directory."""
    written = datetime.now(UTC).isoformat(timespec="seconds")
    return {**numbers, "written": written, "folder": str(Path.cwd()), "command": ["isopix", *sys.argv[1:]]}


def settings_hash(numbers: Mapping[str, Any]) -> str:
    """Six letters of a hash: files of equal settings replace one another, others stand side by side."""
    return hashlib.sha256(repr(sorted(numbers.items())).encode()).hexdigest()[:6]


def git_commit(checkout: Path) -> str | None:
    """The commit of a checkout, with `-dirty` where tracked files differ from it.

    None for an installed package, even one that lies inside another project's checkout, and without git.
    """
    if not (checkout / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
