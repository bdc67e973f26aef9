"""The figure of each analysis, by the name of the analysis."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from isopix.plots.attention import plot_attention_distance, plot_attention_maps, plot_attention_rollout
from isopix.plots.filters import plot_embedding_pca
from isopix.plots.inductive_biases import plot_inductive_biases
from isopix.plots.positions import plot_position_similarity

ANALYSIS_FIGURES: dict[str, Callable[[Mapping[str, Any]], Figure]] = {
    "attention_distance": plot_attention_distance,
    "attention_maps": plot_attention_maps,
    "attention_rollout": plot_attention_rollout,
    "position_embeddings": plot_position_similarity,
    "embedding_pca": plot_embedding_pca,
    "inductive_biases": plot_inductive_biases,
}
