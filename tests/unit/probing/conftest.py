"""What tests of probes share."""

import pytest
import torch


@pytest.fixture
def decomposed_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The width of every matrix whose eigenvalues are computed."""
    sizes, eigh = list[int](), torch.linalg.eigh

    def spy(matrix: torch.Tensor) -> object:
        sizes.append(matrix.shape[-1])
        return eigh(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", spy)
    return sizes
