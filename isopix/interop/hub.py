"""The Hugging Face hub: models by name (`owner/name`), through the optional `huggingface-hub`."""

import re
from pathlib import Path
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# What a model folder of ours or of theirs consists of; nothing else is fetched.
PATTERNS = ("*.json", "*.safetensors", "README.md")
PICKLED = "pytorch_model*.bin"  # fetched only where there are no safetensors


def located(where: str | Path) -> Path:
    """The folder itself if it is here, or the hub's model of that name, fetched into the hub's own cache.

    Raises ValueError for what is neither, RuntimeError if the hub cannot be reached.
    """
    path = Path(where)
    if path.exists():
        return path
    if not NAME.fullmatch(str(where)):
        raise ValueError(f"{where} does not exist, and is no name of the hub (owner/name)")
    return _fetch(str(where))


def publish(folder: Path, name: str, *, private: bool) -> str:
    """Upload the files of a folder to the hub's model `name`, made if need be; returns its address.

    Raises ValueError for a name that is none, RuntimeError if the hub cannot be reached or refuses.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"'{name}' is no name of the hub; write owner/name")
    library = _library(name)
    try:
        address = library.create_repo(name, private=private, exist_ok=True)
        library.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload by isopix")
    except Exception as error:  # connection, log-in and permission errors of three libraries
        raise RuntimeError(f"'{name}' cannot be published on the hub: {_reason(error)}") from error
    return str(address)


def _fetch(name: str) -> Path:
    library = _library(name)

    def fetch(*patterns: str) -> Path:
        # `*` goes over slashes there: folders inside are other forms of the model, and as large.
        return Path(library.snapshot_download(name, allow_patterns=list(patterns), ignore_patterns=["*/*"]))

    try:
        folder = fetch(*PATTERNS)
        return folder if any(folder.glob("*.safetensors")) else fetch(*PATTERNS, PICKLED)
    except Exception as error:
        raise RuntimeError(
            f"'{name}' is no folder here, and cannot be fetched from the hub: no network, no access or no "
            f"such model ({_reason(error)}); fetch it elsewhere and give the folder"
        ) from error


def _library(name: str) -> Any:
    try:
        import huggingface_hub  # noqa: PLC0415  # the optional extra `hf`
    except ImportError:
        raise RuntimeError(f"'{name}': the hub needs pip install 'isopix[hf]'") from None
    return huggingface_hub


def _reason(error: Any) -> str:
    first = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {first}".rstrip(": ")
