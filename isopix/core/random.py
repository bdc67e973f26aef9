"""Randomness is a function of (seed, purpose, step): nothing to save, nothing to restore."""

import hashlib

import torch


def generator(seed: int, purpose: str, step: int = 0) -> torch.Generator:
    """A fresh CPU generator for one purpose at one step; equal arguments give equal draws on every device."""
    digest = hashlib.blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
