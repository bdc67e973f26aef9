"""Models on the Hugging Face Hub, named `owner/name`, through the optional package `huggingface-hub`."""

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

from isopix.core.text import error_line
from isopix.storage.run_folder import no_folder

REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
NOT_FOUND = "RepositoryNotFoundError"  # of huggingface_hub, also the base of its error for gated models
ALLOW_PATTERNS = ("*.json", "*.safetensors", "README.md")  # no other file is downloaded
PICKLE_PATTERN = "pytorch_model*.bin"  # downloaded only where there are no safetensors files


def resolve_path(name_or_path: str | os.PathLike[str], kind: str = "run folder") -> Path:
    """Return a local folder as it is, or the local copy of a model on the Hub, in the Hub's own cache."""
    path, name = Path(name_or_path), str(name_or_path)
    if path.exists():
        return path
    if not REPO_ID.fullmatch(name):
        raise ValueError(f"{no_folder(path)}; a model on the Hub is named owner/name")
    try:
        return _download(name, kind)
    except (ValueError, RuntimeError) as error:
        if path.parent.is_dir():
            raise ValueError(no_folder(path)) from error
        raise


def require_name(name: str) -> None:
    """Raise ValueError for what is no name of a model on the Hub, RuntimeError without the Hub's package."""
    if not REPO_ID.fullmatch(name):
        raise ValueError(f"'{name}' is not a Hub model name; use owner/name")
    _huggingface_hub(name)


def upload(folder: Path, name: str, *, private: bool) -> str:
    """Upload the files of a folder to the Hub model `name`, created if missing, and return its URL."""
    hub = _huggingface_hub(name)
    try:
        url = hub.create_repo(name, private=private, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload by isopix")
    except Exception as error:  # connection, login and permission errors of three libraries
        raise RuntimeError(f"cannot upload '{name}' to the Hub: {error_line(error)}") from error
    return str(url)


def _download(name: str, kind: str) -> Path:
    hub = _huggingface_hub(name)
    # `*` also matches slashes: without ignore_patterns, other formats in subfolders would come too.
    download = partial(hub.snapshot_download, name, ignore_patterns=["*/*"])
    try:
        folder = Path(download(allow_patterns=[*ALLOW_PATTERNS]))
        if any(folder.glob("*.safetensors")):
            return folder
        return Path(download(allow_patterns=[*ALLOW_PATTERNS, PICKLE_PATTERN]))
    except Exception as error:
        wrong_name = any(base.__name__ == NOT_FOUND for base in type(error).__mro__)
        raise (ValueError if wrong_name else RuntimeError)(
            f"'{name}' is neither a {kind} nor a model that the Hub provides ({error_line(error)}); "
            "check the path, or the model's name, your access (hf auth login) and the network"
        ) from error


def _huggingface_hub(name: str) -> Any:
    try:
        import huggingface_hub  # noqa: PLC0415  # the optional extra `hf`
    except ImportError:
        raise RuntimeError(f"'{name}': the Hub requires pip install -e '.[hf]'") from None
    return huggingface_hub
