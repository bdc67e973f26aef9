"""Components are those of scikit-learn, and of filters they are pictures."""

import pytest
import torch
from einops import rearrange
from sklearn.decomposition import PCA
from torch import nn

from isopix.analysis import filters
from isopix.core.random import generator


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(0, "test.filters"), dtype=torch.float64)


def test_components_are_scikit_learns() -> None:
    rows = drawn(40, 12) * torch.arange(1, 13)
    found, theirs = filters.components(rows, 5), PCA(5, svd_solver="full").fit(rows.numpy())
    expected = torch.from_numpy(theirs.components_)
    expected *= (found.directions.double() * expected).sum(1, keepdim=True).sign()
    torch.testing.assert_close(found.directions.double(), expected, rtol=0, atol=1e-6)
    shares = torch.from_numpy(theirs.explained_variance_ratio_)
    torch.testing.assert_close(found.explained.double(), shares, rtol=0, atol=1e-6)
    along = (rows - rows.mean(0)) @ expected.T
    torch.testing.assert_close(found.along.double(), along, rtol=0, atol=1e-4)


def test_all_components_explain_all_variance_and_equal_rows_none() -> None:
    assert filters.components(drawn(9, 4), 4).explained.sum().item() == pytest.approx(1)
    assert filters.components(torch.ones(9, 4), 4).explained.sum().item() == 0


def test_the_largest_entry_of_each_direction_is_positive() -> None:
    found = filters.components(drawn(30, 6), 6).directions
    assert (found.gather(1, found.abs().argmax(1, keepdim=True)) > 0).all()


def test_filters_made_of_two_pictures_have_these_as_their_components() -> None:
    """A stripe of red, and a green edge: every filter is a mixture, and little else."""
    red, green = torch.zeros(2, 3, 4, 4)
    red[0, 1], green[1, :, 2:] = 1, 1
    mixed = drawn(200, 2).float() * torch.tensor([3.0, 1.0])
    embedding = torch.einsum("dk,kchw->dchw", mixed, torch.stack([red, green]))
    found = filters.of_filters(embedding, 3)
    assert found.explained[:2].sum().item() == pytest.approx(1, abs=1e-5)
    first = filters.patches(found, 4)[0]
    assert first[1, :, 0].min() > 0.95  # the stripe is as red as can be
    assert (first[[0, 2, 3], :2] - 0.5).abs().max() < 0.05
    assert first.min() >= 0
    assert first.max() <= 1


def test_values_of_each_channel_have_components_of_their_own() -> None:
    vectors = drawn(3, 256, 8)
    found = filters.of_values(vectors, 2)
    assert len(found) == 3
    assert found[1].along.shape == (256, 2)
    torch.testing.assert_close(found[1].directions, filters.components(vectors[1], 2).directions)


class PatchStem(nn.Module):
    """A matrix over the pixels of a patch, in [-1, 1], behind something else or not."""

    def __init__(self, before: nn.Module, size: int):
        super().__init__()
        self.before, self.project = before, nn.Linear(size, 6)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        cells = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4).float() / 127.5 - 1
        return [self.project(self.before(cells))]


def test_filters_are_the_matrix_of_a_linear_stem_however_it_keeps_it() -> None:
    stem = PatchStem(nn.Identity(), 48)
    found = filters.filters(stem, 4)
    expected = 2 * stem.project.weight.detach().double()  # from -1 to 1
    torch.testing.assert_close(found.flatten(1), expected, rtol=0, atol=1e-5)


def test_a_stem_that_is_not_linear_has_none() -> None:
    assert filters.filters(PatchStem(nn.Sequential(nn.Linear(48, 48), nn.ReLU()), 48), 4) is None
