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
from isopix.model.backbone import Backbone
from isopix.model.stems.base import ByValue
from isopix.objectives.network import Network

NUM_TABLE_COMPONENTS = 8
MAX_BIAS_IMAGES = 32  # each takes seven forward passes


class PositionEmbeddingsAnalysis(Analysis):
    """Cosine similarity of position embeddings, and whether it follows the 2-D layout of the image; baselines
    are shuffled positions and an untrained network.
    """

    name, title = "position_embeddings", "Position-embedding similarity"

    def why_not(self, network: Network) -> str | None:
        table = _position_table(network.backbone, network.codec)
        return None if table.any() else "this network has no position embeddings"

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return similarity maps and layout scores."""
        grid = given.backbone.grid
        similarity = position_similarity(_position_table(given.backbone, given.codec))
        maps = similarity_maps(similarity, grid)
        scores = {}
        if min(grid) > 1:
            scores["trained"] = layout_scores(similarity, grid)._asdict()
            if given.untrained is not None:
                untrained = position_similarity(_position_table(given.untrained(), given.codec))
                scores["untrained"] = layout_scores(untrained, grid)._asdict()
            draw = generator(given.seed, "shuffle")
            scores["shuffled"] = shuffled_scores(similarity, grid, draw)._asdict()
        return {
            **given.geometry(),
            **scores,
            "rows": maps.rows,
            "cols": maps.cols,
            "maps": rounded(maps.values, 3),
        }


class EmbeddingPCAAnalysis(Analysis):
    """Principal components of patch-embedding filters, or of embedding tables of pixel values."""

    name, title = "embedding_pca", "Embedding PCA"

    def why_not(self, network: Network) -> str | None:
        stem = network.backbone.stem
        if isinstance(stem, ByValue) or patch_filters(stem, network.codec.patch_size) is not None:
            return None
        return "this stem is not linear in the pixels of a patch: it has no filters"

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return components with the variance that they explain."""
        stem, patch_size = given.backbone.stem, given.codec.patch_size
        if isinstance(stem, ByValue):
            tables = [
                {
                    "explained_variance_ratio": rounded(found.explained_variance_ratio),
                    "projections": rounded(found.projections),
                }
                for found in table_components(stem.vectors(), NUM_TABLE_COMPONENTS)
            ]
            return {**given.geometry(), "weights": "tables", "tables": tables, **_palette(given.codec)}
        filters = patch_filters(stem, patch_size)
        assert filters is not None, "the analysis applies"
        found = filter_components(filters)
        return {
            **given.geometry(),
            "weights": "filters",
            "components": rounded(component_images(found, patch_size), 3),
            "explained_variance_ratio": rounded(found.explained_variance_ratio),
        }


class InductiveBiasesAnalysis(Analysis):
    """Translation error, permutation error and receptive field of every layer."""

    name, title = "inductive_biases", "Inductive biases"

    def why_not(self, network: Network) -> str | None:
        rows, cols = network.backbone.grid
        return None if min(rows, cols) > 1 else f"a {rows} x {cols} grid is too small to be shifted"

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return the three measurements by layer, on at most 32 images."""
        images = given.images[:MAX_BIAS_IMAGES]
        biases = measure_inductive_biases(given.backbone, images, generator(given.seed, "biases"))
        return {
            **given.geometry(),
            "images": len(images),
            "uniform_receptive_field_mean": uniform_receptive_field(given.backbone.grid).mean_distance,
            "layers": biases.by_layer(),
        }


@torch.no_grad()
def _position_table(backbone: Backbone, codec: Codec) -> Float[Tensor, "N D"]:
    """Return what the network adds at each position."""
    grid, device = backbone.grid, next(backbone.parameters()).device
    black = torch.zeros(
        1, 3, grid.rows * codec.patch_size, grid.cols * codec.patch_size, dtype=torch.uint8, device=device
    )
    width = backbone.enter(black).shape[-1]
    return backbone.positions(torch.zeros(1, grid.positions, width, device=device))[0]


def _palette(codec: Codec) -> Numbers:
    """Return the color of each code of a codec with one code per position."""
    if codec.num_codes > 1:
        return {}
    colors = codec.decode(torch.arange(codec.vocab_size)[:, None, None], Grid(1, 1))
    return {"colors": colors.flatten(1).cpu().tolist()}
