"""Random generators as a function of (seed, purpose, step), so that no state is saved."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def generator(seed: int, purpose: str, step: int = 0) -> torch.Generator:
    """Return a CPU generator for one purpose at one step; the same arguments give the same draws."""
    return torch.Generator().manual_seed(_number(seed, purpose, step))


@contextmanager
def seeded(seed: int, purpose: str, step: int, device: torch.device) -> Iterator[None]:
    """Seed PyTorch's global generators, for what takes no other, such as dropout; restore them after."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(_number(seed, purpose, step))
        yield


def _number(seed: int, purpose: str, step: int) -> int:
    digest = hashlib.blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
