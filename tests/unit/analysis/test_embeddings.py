"""Components are scikit-learn's, similarities their closed forms; layout scores tell rows from sequences."""

import math
from statistics import fmean

import numpy as np
import pytest
import torch
from einops import rearrange
from scipy import stats
from scipy.stats import wasserstein_distance
from sklearn.decomposition import PCA
from torch import nn

from isopix.analysis import embeddings, positions
from isopix.analysis.inductive_biases import color_error
from isopix.codecs.patches import Bytes
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.stems.pixels import (
    FourierPixelEmbeddingSpec,
    LinearPixelEmbeddingSpec,
    Stem,
    TokenEmbeddingSpec,
)


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


def test_one_hot_vectors_have_no_distance_preservation_and_full_rank() -> None:
    found = embeddings.one_hot_similarity()
    assert (found.similarity == np.eye(256)).all()
    assert (found.distance_preservation, found.effective_rank) == (0.0, pytest.approx(256))


def test_scalars_have_full_distance_preservation_and_rank_one() -> None:
    found = embeddings.continuous_similarity()
    assert found.similarity[0, 255] == 0
    assert found.similarity[3, 54] == pytest.approx(1 - 51 / 255)
    assert (found.distance_preservation, found.effective_rank) == (pytest.approx(1), 1.0)


def test_distance_preservation_is_scipys_rank_correlation() -> None:
    found = embeddings.fourier_similarity(random(3).float(), levels=20)
    pairs = [(p, q) for p in range(20) for q in range(p + 1, 20)]
    similar = [round(found.similarity[p, q], 12) for p, q in pairs]
    assert found.distance_preservation == pytest.approx(
        stats.spearmanr(similar, [p - q for p, q in pairs]).statistic
    )


LOCAL, DISTANT = range(1, 33), range(33, 256)


def test_local_similarity_is_that_of_levels_32_apart_or_less_above_the_others() -> None:
    near, far = ([1 - lag / 255 for lag in lags for _ in range(256 - lag)] for lags in (LOCAL, DISTANT))
    found = embeddings.continuous_similarity()
    assert found.local_similarity == pytest.approx(fmean(near) - fmean(far))
    assert found._replace(similarity=np.ones((256, 256))).local_similarity == 0, "no sense of distance"


def test_effective_rank_counts_dimensions() -> None:
    equal = torch.linalg.qr(random(8, 6).float()).Q
    assert embeddings.effective_rank(5 * equal) == pytest.approx(6)
    shares = torch.tensor([0.5, 0.25, 0.25])
    assert embeddings.effective_rank(torch.diag(shares)) == pytest.approx(math.exp(1.5 * math.log(2)))
    assert embeddings.effective_rank(torch.zeros(3, 2)) == 0


@pytest.mark.parametrize(
    "stem",
    [TokenEmbeddingSpec(), FourierPixelEmbeddingSpec(), LinearPixelEmbeddingSpec()],
    ids=lambda spec: spec.kind,
)
def test_every_stem_has_an_embedding_table_per_channel(stem) -> None:
    codec = Bytes(Grid(1, 256))
    module = stem.build(codec, 8)
    for place, weight in enumerate(module.parameters()):
        torch.nn.init.normal_(weight, generator=generator(place, "weights"))
    ramp = torch.arange(256, dtype=torch.uint8).expand(1, 3, 1, 256)
    inputs = codec.encode(ramp) if module.reads_codes else ramp
    assert torch.equal(torch.cat(list(module(inputs))), module.value_table())
    first = embeddings.embedding_similarity(module.value_table()[1])
    one, other = module.value_table()[1, 7].tolist(), module.value_table()[1, 200].tolist()
    cosine = np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other)
    assert first.similarity[7, 200] == pytest.approx(cosine, abs=1e-6)


ALL = torch.ones(2, 64, 1, dtype=torch.bool)


def images(seed: int) -> torch.Tensor:
    return torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8, generator=generator(seed, "images"))


def test_permuted_colors_are_all_misplaced_and_a_constant_error_is_not() -> None:
    same, black = color_error(images(0), ALL, images(0)), torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    assert (same.mean_absolute, same.histogram, same.misplaced_fraction) == (0, 0, 0)
    permuted, constant = color_error(images(0), ALL, images(0).flip(3)), color_error(black, ALL, black + 51)
    assert permuted.mean_absolute > 0.2
    assert (permuted.histogram, permuted.misplaced_fraction) == (0, 1)
    assert (constant.mean_absolute, constant.misplaced_fraction) == pytest.approx((0.2, 0))


def test_the_histogram_error_is_the_wasserstein_distance_of_masked_levels() -> None:
    target, prediction = images(0), images(1)
    mask = torch.rand(2, 64, 1, generator=generator(0, "hidden")) < 0.3
    expected = [
        wasserstein_distance(a[channel][masked[:, 0]], b[channel][masked[:, 0]]) / 255
        for a, masked, b in zip(target.flatten(2), mask, prediction.flatten(2), strict=True)
        for channel in range(3)
    ]
    assert color_error(target, mask, prediction).histogram == pytest.approx(sum(expected) / 6, rel=1e-5)


def test_images_without_masked_pixels_are_skipped() -> None:
    mask = ALL.clone()
    mask[1] = False
    alone = color_error(images(0)[:1], ALL[:1], images(1)[:1])
    assert color_error(images(0), mask, images(1)) == pytest.approx(alone)
    with pytest.raises(ValueError, match="no pixel of these images is masked"):
        color_error(images(0), ~ALL, images(1))


GRID = Grid(12, 10)


def sinusoids(index: torch.Tensor, width: int) -> torch.Tensor:
    rates = 100.0 ** -(torch.arange(width // 2) / (width // 2))
    angles = index[:, None].double() * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


def table(kind: str, grid: Grid = GRID) -> torch.Tensor:
    place = torch.arange(grid.positions)
    if kind == "rows_and_columns":
        return torch.cat([sinusoids(place // grid.cols, 32), sinusoids(place % grid.cols, 32)], 1)
    if kind == "smooth_sequence":
        near = torch.exp(-((place[:, None] - place) ** 2) / (2 * (1.5 * grid.cols) ** 2)).double()
        return near @ torch.randn(grid.positions, 64, generator=generator(0, "walk"), dtype=torch.float64)
    return torch.randn(grid.positions, 64, generator=generator(0, "test.table"), dtype=torch.float64)


@pytest.mark.parametrize("kind", ["rows_and_columns", "smooth_sequence", "random"])
def test_scores_are_partial_rank_correlations(kind: str) -> None:
    """Against SciPy's ranks and a regression on an indicator of each distance by least squares."""
    grid = Grid(5, 4)
    similarity = positions.position_similarity(table(kind, grid))
    one, other = np.triu_indices(grid.positions, 1)
    down, right = abs(one // grid.cols - other // grid.cols), abs(one % grid.cols - other % grid.cols)
    ranks = stats.rankdata(similarity.numpy()[one, other].round(12))
    near, order = stats.rankdata(-(down**2 + right**2)), stats.rankdata(-abs(one - other))

    def given(controls: np.ndarray, proximity: np.ndarray) -> float:
        indicators = np.float64(controls[:, None] == np.unique(controls))
        left = [
            each - indicators @ np.linalg.lstsq(indicators, each, rcond=None)[0]
            for each in (ranks, proximity)
        ]
        return float(np.corrcoef(left)[0, 1])

    found = positions.layout_scores(similarity, grid)
    assert found.partial_2d == pytest.approx(given(abs(one - other), near), abs=1e-9)
    if kind != "rows_and_columns":  # there it is 0 / 0
        assert found.partial_raster == pytest.approx(given(100 * down + right, order), abs=1e-9)


def test_maps_are_rows_of_the_similarity_matrix() -> None:
    similarity = positions.position_similarity(table("rows_and_columns"))
    rows, cols, maps = positions.similarity_maps(similarity, GRID)
    assert (rows, cols) == (list(range(12)), list(range(10)))
    torch.testing.assert_close(maps[7, 4].flatten(), similarity[7 * 10 + 4].float())


def test_large_grids_have_maps_of_evenly_spaced_positions() -> None:
    grid = Grid(32, 32)
    rows, cols, maps = positions.similarity_maps(torch.eye(grid.positions), grid)
    assert len(rows) == len(cols) == 8
    assert (rows[0], rows[-1]) == (0, 31)
    assert maps[2, 5].argmax() == rows[2] * 32 + cols[5]
    assert math.prod(maps.shape) == positions.MAX_MAP_VALUES
