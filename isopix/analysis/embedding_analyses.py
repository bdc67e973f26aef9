"""Analyses of position embeddings, of the stem's weights, and of inductive biases."""

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.analysis.base import Analysis, AnalysisInput, Numbers, rounded
from isopix.analysis.filters import component_images, filter_components, patch_filters, table_components
from isopix.analysis.inductive_biases import measure_inductive_biases, uniform_receptive_field
from isopix.analysis.positions import layout_scores, position_similarity, shuffled_scores, similarity_maps
from isopix.codecs.base import Codec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.network import Network

NUM_TABLE_COMPONENTS = 8
MAX_BIAS_IMAGES = 32  # each takes seven forward passes


class PositionEmbeddingsAnalysis(Analysis):
    """Cosine similarity of position embeddings, and whether it follows the 2-D layout of the image; baselines
    are shuffled positions and an untrained network.
    """

    name, title = "position_embeddings", "Position-embedding similarity"

    def not_applicable_reason(self, network: Network) -> str | None:
        table = _position_table(network)
        return None if table.any() else "this network has no position embeddings"

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return similarity maps and layout scores."""
        grid = given.backbone.grid
        similarity = position_similarity(_position_table(given.network))
        maps = similarity_maps(similarity, grid)
        scores = {}
        if min(grid) > 1:
            scores["trained"] = layout_scores(similarity, grid)._asdict()
            if given.untrained is not None:
                untrained = position_similarity(_position_table(given.untrained()))
                scores["untrained"] = layout_scores(untrained, grid)._asdict()
            draw = generator(given.seed, "shuffle")
            scores["shuffled"] = shuffled_scores(similarity, grid, draw)._asdict()
        return {
            **given.common_results(),
            **scores,
            "rows": maps.rows,
            "cols": maps.cols,
            "maps": rounded(maps.values, 3),
        }


class EmbeddingPCAAnalysis(Analysis):
    """Principal components of patch-embedding filters, or of embedding tables of pixel values."""

    name, title = "embedding_pca", "Embedding PCA"

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


class InductiveBiasesAnalysis(Analysis):
    """Translation error, permutation error and receptive field of every layer."""

    name, title = "inductive_biases", "Inductive biases"

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


@torch.no_grad()
def _position_table(network: Network) -> Float[Tensor, "N D"]:
    """Return what the network adds at each position."""
    backbone, codec = network.backbone, network.codec
    codes = torch.zeros(1, codec.grid.positions, codec.num_codes, dtype=torch.long, device=network.device)
    embedded = backbone.patch_tokens(backbone.embed(network.inputs_of_codes(codes)))
    return backbone.positions(torch.zeros_like(embedded))[0]


def _palette(codec: Codec) -> Numbers:
    """Return the color of each code of a codec with one code per position."""
    if codec.num_codes > 1:
        return {}
    colors = codec.decode(torch.arange(codec.vocab_size)[:, None, None], Grid(1, 1))
    return {"colors": colors.flatten(1).cpu().tolist()}
