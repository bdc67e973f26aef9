"""Principal components of a stem's weights: patch-embedding filters, or embedding tables of pixel values."""

from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.analysis.base import Analysis, AnalysisInput, Numbers, rounded
from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.stats import pearson_coefficient, rankdata
from isopix.core.text import Table
from isopix.core.types import Grid
from isopix.model.masking import sum_components
from isopix.model.network import Network
from isopix.model.stems.pixels import LEVELS, Stem
from isopix.plots.embeddings import plot_filters, plot_tables
from isopix.plots.style import Figure

LINEARITY_TOLERANCE = 1e-3  # relative; allows for rounding of the sum of all filters
NUM_FILTER_COMPONENTS = 28  # as many as the Vision Transformer paper shows (figure 7, left)
NUM_TABLE_COMPONENTS = 8

Filters = Float[Tensor, "D 3 side side"]


class PrincipalComponents(NamedTuple):
    """Components by decreasing variance, the fraction that each explains, and centered rows' projections."""

    components: Float[Tensor, "components F"]
    explained_variance_ratio: Float[Tensor, " components"]
    projections: Float[Tensor, "rows components"]


def principal_components(rows: Float[Tensor, "rows F"], count: int) -> PrincipalComponents:
    """Return at most `count` components, signed so that the entry of largest magnitude is positive."""
    rows = rows.detach().cpu().double()
    centered = rows - rows.mean(0)
    _, singular_values, components = torch.linalg.svd(centered, full_matrices=False)
    components = components[:count]
    components = components * components.gather(1, components.abs().argmax(1, keepdim=True)).sign()
    variance = singular_values.square()
    ratio = variance[:count] / variance.sum().clamp(min=torch.finfo(variance.dtype).tiny)
    return PrincipalComponents(components.float(), ratio.float(), (centered @ components.T).float())


@torch.no_grad()
def patch_filters(stem: Stem, side: int) -> Filters | None:
    """Return the change of a token as each sub-pixel goes from 0 to 255; None for a nonlinear stem."""
    size = 3 * side * side
    pixels = torch.cat([torch.eye(size), torch.zeros(1, size), torch.ones(1, size)]).byte() * 255
    patches = rearrange(pixels, "n (c h w) -> n c h w", c=3, h=side).to(next(stem.parameters()).device)
    tokens = sum_components(stem(patches))[:, 0].cpu().double()
    black, white = tokens[-2], tokens[-1]
    filters = tokens[:-2] - black
    if (filters.sum(0) - (white - black)).norm() > LINEARITY_TOLERANCE * filters.norm():
        return None
    return rearrange(filters, "(c h w) d -> d c h w", c=3, h=side)


def component_images(found: PrincipalComponents, side: int) -> Float[Tensor, "components side side 3"]:
    """Return components of filters as colors in [0, 1]: 0 is mid-gray, the largest entry is at 0 or 1."""
    patches = rearrange(found.components, "n (c h w) -> n h w c", c=3, h=side)
    return 0.5 + patches / (2 * patches.abs().amax((1, 2, 3), keepdim=True).clamp(min=1e-12))


@register("embedding_pca")
class EmbeddingPCA(Analysis):
    """Principal components of patch-embedding filters, or of embedding tables of pixel values."""

    def label(self) -> str:
        return "Embedding PCA"

    def not_applicable_reason(self, network: Network) -> str | None:
        stem = network.backbone.stem
        if stem.has_value_table or patch_filters(stem, network.codec.patch_size) is not None:
            return None
        return "this stem is not linear in the pixels of a patch: it has no filters"

    def compute(self, given: AnalysisInput) -> Numbers:
        stem, patch_size = given.backbone.stem, given.codec.patch_size
        if stem.has_value_table:
            tables = [
                {"explained_variance_ratio": rounded(ratio), "projections": rounded(projections)}
                for table in stem.value_table()
                for _, ratio, projections in [principal_components(table, NUM_TABLE_COMPONENTS)]
            ]
            return {**given.common_results(), "weights": "tables", "tables": tables, **_palette(given.codec)}
        filters = patch_filters(stem, patch_size)
        assert filters is not None, "the analysis applies"
        found = principal_components(rearrange(filters, "d c h w -> d (c h w)"), NUM_FILTER_COMPONENTS)
        return {
            **given.common_results(),
            "weights": "filters",
            "components": rounded(component_images(found, patch_size), 3),
            "explained_variance_ratio": rounded(found.explained_variance_ratio),
        }

    def figure(self, numbers: Numbers) -> Figure:
        return plot_filters(numbers) if numbers["weights"] == "filters" else plot_tables(numbers)

    def caption(self, numbers: Numbers) -> str:
        if numbers["weights"] == "filters":
            return "Leading principal components of the patch-embedding filters; gray is zero."
        return "Projections of the embeddings of colors or code values onto their principal components."

    def table(self, numbers: Numbers) -> Table:
        tables = [numbers] if numbers["weights"] == "filters" else numbers["tables"]
        return Table(
            f"PCA of the input embedding ({numbers['weights']}): cumulative explained variance",
            ("table", "1", "2", "3", "8"),
            [
                (str(i), *(f"{sum(table['explained_variance_ratio'][:count]):.1%}" for count in (1, 2, 3, 8)))
                for i, table in enumerate(tables, start=1)
            ],
        )


def _palette(codec: Codec) -> dict[str, Any]:
    if codec.num_codes > 1:
        return {}
    colors = codec.decode(torch.arange(codec.vocab_size)[:, None, None], Grid(1, 1))
    return {"colors": colors.flatten(1).cpu().tolist()}


LOCAL = 32  # levels: the band next to the diagonal in figures 2, 3 and 5 of Cazenavette and Lucey 2021
SIMILARITY_DIGITS = 12  # similarities that differ by rounding errors only share a rank

SimilarityMatrix = Float[np.ndarray, "K K"]


class LevelSimilarity(NamedTuple):
    """Similarity of each pair of levels, -1 to 1, with its summary statistics."""

    similarity: SimilarityMatrix
    distance_preservation: float  # -1 to 1
    effective_rank: float  # 1 to the number of levels

    @property
    def local_similarity(self) -> float:
        """The mean similarity of levels at most LOCAL apart, minus that of all other pairs; -2 to 2."""
        p, q = np.triu_indices(len(self.similarity), 1)
        pairs, near = self.similarity[p, q].astype(float), q - p <= LOCAL
        return float(pairs[near].mean() - pairs[~near].mean())


def one_hot_similarity(levels: int = LEVELS) -> LevelSimilarity:
    """Return the similarity of one-hot vectors: no distance preservation, full effective rank."""
    return embedding_similarity(torch.eye(levels))


def continuous_similarity(levels: int = LEVELS) -> LevelSimilarity:
    """Return 1 - |p - q| / (levels - 1), as the cosine similarity of two scalars is always 1 or -1."""
    level = np.arange(levels)
    similarity = 1 - np.abs(level[:, None] - level) / (levels - 1)
    return LevelSimilarity(similarity, distance_preservation(similarity), 1.0)


def fourier_similarity(frequencies: Float[Tensor, " F"], levels: int = LEVELS) -> LevelSimilarity:
    """Return the similarity of Fourier features of levels scaled to [-1, 1]; frequencies include sigma."""
    angles = 2 * torch.pi * frequencies.double() * torch.linspace(-1, 1, levels).double()[:, None]
    return embedding_similarity(torch.cat([angles.sin(), angles.cos()], 1))


def embedding_similarity(table: Float[Tensor, "K D"]) -> LevelSimilarity:
    """Return the cosine similarity of the rows of an embedding table; a zero vector has similarity 0."""
    table = table.detach().cpu().double()
    unit = F.normalize(table, dim=1)
    similarity = (unit @ unit.T).numpy()
    return LevelSimilarity(similarity, distance_preservation(similarity), effective_rank(table))


def distance_preservation(similarity: SimilarityMatrix) -> float:
    """Return Spearman's correlation of similarity and -|p - q| over pairs p < q; 0 if constant."""
    p, q = np.triu_indices(len(similarity), 1)
    rounded = similarity[p, q].round(SIMILARITY_DIGITS)
    return pearson_coefficient(rankdata(rounded), rankdata((p - q).astype(float))) or 0.0


def effective_rank(table: Float[Tensor, "K D"]) -> float:
    """Return exp of the entropy of the normalized singular values; 0 for an all-zero table."""
    values = torch.linalg.svdvals(table.double())
    if not values.any():
        return 0.0
    return float(torch.special.entr(values / values.sum()).sum().exp())
