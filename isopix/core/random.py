"""Random generators as a function of (seed, purpose, step), so that no state is saved."""

import hashlib

import torch


def generator(seed: int, purpose: str, step: int = 0) -> torch.Generator:
    """Return a CPU generator for one purpose at one step; the same arguments give the same draws."""
    digest = hashlib.blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
