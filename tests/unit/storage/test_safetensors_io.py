"""Tensor files: write and read round trip, without copying everything."""

import resource
from pathlib import Path

import pytest
import torch

from isopix.storage import safetensors_io


def test_write_and_read_round_trip(tmp_path: Path) -> None:
    whole = torch.arange(12, dtype=torch.float32).view(3, 4)
    tensors = {
        "whole": whole,
        "again": whole,
        "row": whole[1],
        "turned": whole.T,
        "half": whole.half(),
        "number": torch.tensor(3),
        "none": torch.zeros(0, 4),
    }
    safetensors_io.write_tensors(tmp_path / "a.safetensors", tensors)
    found = safetensors_io.read_tensors(tmp_path / "a.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_writing_copies_nothing(tmp_path: Path) -> None:
    tensors = {str(number): torch.ones(1 << 20) for number in range(64)}  # 256 MiB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    safetensors_io.write_tensors(tmp_path / "a.safetensors", tensors)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_a_file_above_the_size_limit_is_a_disk_error(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            safetensors_io.write_tensors(tmp_path / "a.safetensors", {"a": torch.zeros(1000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
