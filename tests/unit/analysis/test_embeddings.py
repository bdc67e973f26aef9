"""Principal components equal those of scikit-learn; components of filters are images."""

import pytest
import torch
from einops import rearrange
from sklearn.decomposition import PCA
from torch import nn

from isopix.analysis import embeddings
from isopix.core.random import generator
from isopix.model.stems.base import Stem


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(0, "test.filters"), dtype=torch.float64)


def test_components_equal_those_of_scikit_learn() -> None:
    rows = random(40, 12) * torch.arange(1, 13)
    found, theirs = embeddings.principal_components(rows, 5), PCA(5, svd_solver="full").fit(rows.numpy())
    expected = torch.from_numpy(theirs.components_)
    assert (found.components.gather(1, found.components.abs().argmax(1, keepdim=True)) > 0).all()
    expected *= (found.components.double() * expected).sum(1, keepdim=True).sign()
    torch.testing.assert_close(found.components.double(), expected, rtol=0, atol=1e-6)
    ratios = torch.from_numpy(theirs.explained_variance_ratio_)
    torch.testing.assert_close(found.explained_variance_ratio.double(), ratios, rtol=0, atol=1e-6)
    projections = (rows - rows.mean(0)) @ expected.T
    torch.testing.assert_close(found.projections.double(), projections, rtol=0, atol=1e-4)


def test_filters_made_of_two_images_have_them_as_components() -> None:
    """Every filter is a linear combination of a red stripe and a green edge."""
    red, green = torch.zeros(2, 3, 4, 4)
    red[0, 1], green[1, :, 2:] = 1, 1
    mixed = random(200, 2).float() * torch.tensor([3.0, 1.0])
    embedding = torch.einsum("dk,kchw->dchw", mixed, torch.stack([red, green]))
    found = embeddings.principal_components(embedding.flatten(1), 3)
    assert found.explained_variance_ratio[:2].sum().item() == pytest.approx(1, abs=1e-5)
    first = embeddings.component_images(found, 4)[0]
    assert first[1, :, 0].min() > 0.95  # the stripe is pure red
    assert (first[[0, 2, 3], :2] - 0.5).abs().max() < 0.05
    assert first.min() >= 0
    assert first.max() <= 1


class PatchStem(Stem):
    """A linear layer over the pixels of a patch, scaled to [-1, 1], after another module."""

    def __init__(self, before: nn.Module, size: int):
        super().__init__()
        self.before, self.project = before, nn.Linear(size, 6)

    def forward(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        patches = rearrange(inputs, "b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4).float() / 127.5 - 1
        return [self.project(self.before(patches))]


def test_patch_filters_are_the_weights_of_a_linear_stem() -> None:
    stem = PatchStem(nn.Identity(), 48)
    found = embeddings.patch_filters(stem, 4)
    expected = 2 * stem.project.weight.detach().double()  # from -1 to 1
    torch.testing.assert_close(found.flatten(1), expected, rtol=0, atol=1e-5)


def test_a_nonlinear_stem_has_no_filters() -> None:
    assert embeddings.patch_filters(PatchStem(nn.Sequential(nn.Linear(48, 48), nn.ReLU()), 48), 4) is None
