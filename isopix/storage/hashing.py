"""Content hashes: blake2b of bytes, of files and of folders; SHA-256 of the files of a checkpoint."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DIGEST_BYTES = 16
BLOCK = 2**18  # bytes that are read at a time


def hash_bytes(*pieces: bytes) -> str:
    """Return the blake2b hash of the pieces, each preceded by its length, so that their borders count."""
    return hash_pieces(pieces)


def hash_pieces(pieces: Iterable[bytes]) -> str:
    """Return `hash_bytes` of pieces that need not be in memory at once."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for piece in pieces:
        state.update(len(piece).to_bytes(8, "little"))
        state.update(piece)
    return state.hexdigest()


def hash_files(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the hash of each file's content by name; in threads, because hashing releases the GIL."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(_hash_text, files.values()), strict=True))


def hash_tree(files: Mapping[str, Path]) -> str:
    """Return one hash of the names and contents of files."""
    hashes = hash_files(files).items()
    return hash_bytes(*(f"{name}/{digest}".encode("utf-8", "surrogateescape") for name, digest in hashes))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_file(path: str) -> bytes | str:
    """Return the hash of a file's content, or in words why there is none."""
    if not os.path.isfile(path):  # noqa: PTH113  a Path for each of millions of files takes longer
        return "not a regular file"
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            while block := file.read(BLOCK):
                state.update(block)
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return state.digest()


def _hash_text(path: Path) -> str:
    digest = hash_file(str(path))
    return digest if isinstance(digest, str) else digest.hex()
