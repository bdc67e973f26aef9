"""Content hashes: blake2b of bytes, of files and of folders; SHA-256 of the files of a checkpoint."""

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def hash_bytes(*pieces: bytes) -> str:
    """Return the blake2b hash of the pieces, each preceded by its length, so that their borders count."""
    state = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        state.update(len(piece).to_bytes(8, "little"))
        state.update(piece)
    return state.hexdigest()


def hash_files(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the hash of each file's content by name; in threads, because hashing releases the GIL."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(_hash_file, files.values()), strict=True))


def hash_tree(files: Mapping[str, Path]) -> str:
    """Return one hash of the names and contents of files."""
    hashes = hash_files(files).items()
    return hash_bytes(*(f"{name}/{digest}".encode("utf-8", "surrogateescape") for name, digest in hashes))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash_file(path: Path) -> str:
    if not path.is_file():
        return "not a regular file"
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
