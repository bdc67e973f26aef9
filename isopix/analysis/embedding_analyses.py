"""Analyses of position embeddings, of the stem's weights, and of inductive biases."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.analysis.base import Analysis, AnalysisInput, Numbers, image_source, rounded
from isopix.analysis.embeddings import component_images, patch_filters
from isopix.analysis.filters import filter_components, table_components
from isopix.analysis.inductive_biases import measure_inductive_biases, uniform_receptive_field
from isopix.analysis.positions import (
    layout_scores,
    position_similarity,
    raster_range,
    shuffled_scores,
    similarity_maps,
)
from isopix.analysis.results import SummaryTable
from isopix.codecs.base import Codec
from isopix.core.random import generator
from isopix.core.registry import register
from isopix.core.types import Grid
from isopix.model.network import Network
from isopix.plots.biases import plot_inductive_biases
from isopix.plots.embeddings import plot_embedding_pca, plot_position_similarity
from isopix.plots.style import Figure

NUM_TABLE_COMPONENTS = 8
MAX_BIAS_IMAGES = 32  # each takes seven forward passes
LAYOUT_SCORES = ("partial_2d", "partial_raster", "plain_2d", "plain_raster")


@register("position_embeddings")
class PositionEmbeddings(Analysis):
    """Cosine similarity of position embeddings, and whether it follows the 2-D layout of the image; baselines
    are shuffled positions and an untrained network.
    """

    def label(self) -> str:
        return "Position-embedding similarity"

    def not_applicable_reason(self, network: Network) -> str | None:
        table = _position_table(network)
        return None if table.any() else "this network has no position embeddings"

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return similarity maps and layout scores."""
        grid = given.backbone.grid
        table = _position_table(given.network)
        similarity = position_similarity(table)
        maps = similarity_maps(similarity, grid)
        scores = {}
        if min(grid) > 1:
            scores["trained"] = _layout(table, grid, given.seed)
            if given.untrained is not None:
                scores["untrained"] = _layout(_position_table(given.untrained()), grid, given.seed)
            draw = generator(given.seed, "shuffle")
            scores["shuffled"] = shuffled_scores(similarity, grid, draw)._asdict()
        return {
            **given.common_results(),
            **scores,
            "rows": maps.rows,
            "cols": maps.cols,
            "maps": rounded(maps.values, 3),
        }

    def figure(self, numbers: Numbers) -> Figure:
        return plot_position_similarity(numbers)

    def caption(self, numbers: Numbers) -> str:
        shown = "Cosine similarity of each position embedding (small map, at its position) with all others."
        if "trained" not in numbers:
            return shown
        own, untrained, shuffled = (numbers[key] for key in ("trained", "untrained", "shuffled"))
        place = "outside" if own["raster_range"]["outside"] else "within"
        return (
            f"{shown} Rank correlation with 2-D proximity among pairs of the same raster distance:"
            f" {own['partial_2d']:.2f} (untrained {untrained['partial_2d']:.2f}, shuffled positions"
            f" {shuffled['mean']:.2f} ± {shuffled['std']:.2f}). With raster proximity, among pairs of the"
            f" same row and column distances: {own['partial_raster']:.2f}, {place} the 95 % range of sums of"
            f" rows and columns, ±{own['raster_range']['limit']:.2f}."
        )

    def table(self, numbers: Numbers) -> SummaryTable | None:
        if "trained" not in numbers:
            return None
        shuffled = numbers["shuffled"]
        return SummaryTable(
            "Position embeddings: Spearman correlation of similarity with proximity, 2-D and raster order",
            ("network", "partial 2-D", "partial raster", "plain 2-D", "plain raster", "95 % range"),
            [
                (key, *(f"{numbers[key][score]:.2f}" for score in LAYOUT_SCORES), _range(numbers[key]))
                for key in ("trained", "untrained")
                if key in numbers
            ],
            "partial 2-D compares pairs of positions at the same raster distance; partial raster, pairs at"
            " the same row and column distances. Partial 2-D of shuffled positions, mean ± std of"
            f" {shuffled['permutations']}: {shuffled['mean']:.3f} ± {shuffled['std']:.3f}. 95 % range: of"
            " partial raster, for embeddings that do not encode raster order (sums of rows and columns)",
        )


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
        """Return components with the variance that they explain."""
        stem, patch_size = given.backbone.stem, given.codec.patch_size
        if stem.has_value_table:
            tables = [
                {
                    "explained_variance_ratio": rounded(found.explained_variance_ratio),
                    "projections": rounded(found.projections),
                }
                for found in table_components(stem.value_table(), NUM_TABLE_COMPONENTS)
            ]
            return {**given.common_results(), "weights": "tables", "tables": tables, **_palette(given.codec)}
        filters = patch_filters(stem, patch_size)
        assert filters is not None, "the analysis applies"
        found = filter_components(filters)
        return {
            **given.common_results(),
            "weights": "filters",
            "components": rounded(component_images(found, patch_size), 3),
            "explained_variance_ratio": rounded(found.explained_variance_ratio),
        }

    def figure(self, numbers: Numbers) -> Figure:
        return plot_embedding_pca(numbers)

    def caption(self, numbers: Numbers) -> str:
        if numbers["weights"] == "filters":
            ratios = numbers["explained_variance_ratio"]
            return (
                f"Leading {len(ratios)} principal components of the patch-embedding filters, each with its"
                f" explained variance; in total {sum(ratios):.0%}. Gray is zero."
            )
        points = "levels of each channel" if len(numbers["tables"]) == 3 else "values of each code"
        points = "palette colors" if "colors" in numbers else points
        explained = ", ".join(
            f"{sum(table['explained_variance_ratio'][:3]):.0%}" for table in numbers["tables"]
        )
        return (
            f"Embeddings of the {points} on their principal components; the first three explain {explained}."
        )

    def table(self, numbers: Numbers) -> SummaryTable:
        tables = [numbers] if numbers["weights"] == "filters" else numbers["tables"]
        return SummaryTable(
            f"PCA of the embedding's {numbers['weights']}: variance explained by the leading components",
            ("table", "1", "2", "3", "8"),
            [
                (str(i), *(f"{sum(table['explained_variance_ratio'][:count]):.1%}" for count in (1, 2, 3, 8)))
                for i, table in enumerate(tables, start=1)
            ],
        )


@register("inductive_biases")
class InductiveBiases(Analysis):
    """Translation error, permutation error and receptive field of every layer."""

    def not_applicable_reason(self, network: Network) -> str | None:
        rows, cols = network.backbone.grid
        return None if min(rows, cols) > 1 else f"a {rows} x {cols} grid is too small to be shifted"

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return the three measurements by layer, on at most 32 images."""
        images = given.images[:MAX_BIAS_IMAGES]
        biases = measure_inductive_biases(given.network, images, generator(given.seed, "biases"))
        return {
            **given.common_results(),
            "images": len(images),
            "uniform_receptive_field_mean": uniform_receptive_field(given.backbone.grid).mean_distance,
            "layers": biases.by_layer(),
        }

    def figure(self, numbers: Numbers) -> Figure:
        return plot_inductive_biases(numbers)

    def caption(self, numbers: Numbers) -> str:
        last = numbers["layers"][-1]
        return (
            f"Relative error of features under translation (left) and permuted positions (middle): 0 is"
            f" equivariant, 1 is no better than chance. Right: mean distance at which a change of one"
            f" position shows; dashed: uniform. Last layer: {last['translation_error']:.2f},"
            f" {last['permutation_error']:.2f}, {last['receptive_field_mean']:.1f};"
            f" {numbers['images']:,} images{image_source(numbers)}."
        )

    def table(self, numbers: Numbers) -> SummaryTable:
        measured = ("translation_error", "permutation_error", "receptive_field_mean")
        return SummaryTable(
            f"Inductive biases, {numbers['images']} images; uniform receptive field: mean distance "
            f"{numbers['uniform_receptive_field_mean']:.1f} positions",
            ("layer", "translation error", "permutation error", "mean distance", "95 % radius"),
            [
                (
                    str(layer["layer"]),
                    *(f"{layer[key]:.2f}" for key in measured),
                    f"{layer['receptive_field_radius_95']}",
                )
                for layer in numbers["layers"]
            ],
        )


@torch.no_grad()
def _position_table(network: Network) -> Float[Tensor, "N D"]:
    """Return what the network adds at each position."""
    backbone, codec = network.backbone, network.codec
    codes = torch.zeros(1, codec.grid.positions, codec.num_codes, dtype=torch.long, device=network.device)
    embedded = backbone.patch_tokens(backbone.embed(network.inputs_of_codes(codes)))
    return backbone.positions(torch.zeros_like(embedded))[0]


def _layout(table: Float[Tensor, "N D"], grid: Grid, seed: int) -> dict[str, Any]:
    """Return the layout scores, and the range of `partial_raster` without raster order."""
    scores = layout_scores(position_similarity(table), grid)
    return {
        **scores._asdict(),
        "raster_range": raster_range(table, grid, generator(seed, "raster"))._asdict(),
    }


def _range(layout: Mapping[str, Any]) -> str:
    found = layout["raster_range"]
    return f"±{found['limit']:.2f} ({'outside' if found['outside'] else 'within'})"


def _palette(codec: Codec) -> dict[str, Any]:
    """Return the color of each code of a codec with one code per position."""
    if codec.num_codes > 1:
        return {}
    colors = codec.decode(torch.arange(codec.vocab_size)[:, None, None], Grid(1, 1))
    return {"colors": colors.flatten(1).cpu().tolist()}
