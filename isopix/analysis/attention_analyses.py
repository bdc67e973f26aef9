"""Analyses of attention weights: distance, maps and rollout."""

import base64
import io

import torch
from einops import rearrange
from PIL import Image

from isopix.analysis.attention import (
    AttentionMaps,
    attention_distance_per_head,
    attention_from,
    uniform_attention_distance,
)
from isopix.analysis.base import Analysis, AnalysisInput, Numbers, QueryPosition, rounded
from isopix.model.attention import AttentionAxis
from isopix.model.backbone import Backbone
from isopix.model.network import Network


class _AttentionAnalysis(Analysis):
    def not_applicable_reason(self, network: Network) -> str | None:
        return None if network.backbone.has_attention_weights else "this network has no attention weights"


class AttentionDistanceAnalysis(_AttentionAnalysis):
    """Attention distance of every head in pixels: mean and standard deviation over images."""

    name, title = "attention_distance", "Attention distance"

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return the distances by layer and head, also relative to uniform attention."""
        patch_size = given.codec.patch_size
        distances = attention_distance_per_head(
            given.network,
            given.images,
            patch_size=patch_size,
            renormalize=given.renormalize,
            progress=given.progress,
        )
        stds = distances.std(-1, correction=min(1, distances.shape[-1] - 1))
        layers = []
        for (layer, span), means, std in zip(
            given.backbone.attention_axes(), distances.mean(-1).tolist(), stds.tolist(), strict=True
        ):
            uniform = uniform_attention_distance(span.grid, patch_size=patch_size, causal=given.causal)
            heads = [
                {"mean": mean, "std": std, "relative_to_uniform": mean / uniform if uniform else 1.0}
                for mean, std in zip(means, std, strict=True)
            ]
            layers.append({"layer": _layer_name(layer, span), "heads": heads})
        return {
            **given.common_results(),
            "images": len(given.images),
            "renormalized": given.renormalize,
            "uniform_distances": _uniform_distances(given),
            "layers": layers,
        }


class AttentionMapsAnalysis(_AttentionAnalysis):
    """Attention of every head of every layer, from some positions of one image."""

    name, title = "attention_maps", "Attention maps"

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return a map by query position, layer and head."""
        maps = rearrange(_attention(given).heads, "q l a (h w) -> q l a h w", h=given.backbone.grid.rows)
        return _image(given) | {
            "layer_names": [_layer_name(layer, span) for layer, span in given.backbone.attention_axes()],
            "queries": [
                {"position": position, "heads": rounded(heads)}
                for position, heads in zip(given.queries, maps, strict=True)
            ],
        }


class AttentionRolloutAnalysis(_AttentionAnalysis):
    """Attention rollout over all layers, from some positions of one image."""

    name, title = "attention_rollout", "Attention rollout"

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return a map by query position."""
        maps = rearrange(_attention(given).rollout, "q (h w) -> q h w", h=given.backbone.grid.rows)
        return _image(given) | {
            "queries": [
                {"position": position, "rollout": rounded(rollout)}
                for position, rollout in zip(given.queries, maps, strict=True)
            ]
        }


def _attention(given: AnalysisInput) -> AttentionMaps:
    tokens = torch.tensor([_token_index(given.backbone, position) for position in given.queries])
    return attention_from(given.network, given.images[given.image_index][None], tokens)


def _token_index(backbone: Backbone, position: QueryPosition) -> int:
    if isinstance(position, str):
        return 0
    row, col = position
    return backbone.num_prefix_tokens + row * backbone.grid.cols + col


def _layer_name(layer: int, span: AttentionAxis) -> str:
    """Return `1`, or `1 rows` and `1 columns` for the two attentions of an axial block."""
    return f"{layer} {span.name}".strip()


def _uniform_distances(given: AnalysisInput) -> Numbers:
    """Return the distance of uniform attention, by the positions that it may attend to."""
    grid, patch_size = given.backbone.grid, given.codec.patch_size
    if given.causal:
        causal = uniform_attention_distance(grid, patch_size=patch_size, causal=True)
        return {"all positions": uniform_attention_distance(grid, patch_size=patch_size), "causal": causal}
    return {
        span.name or "all positions": uniform_attention_distance(span.grid, patch_size=patch_size)
        for _, span in given.backbone.attention_axes()
    }


def _image(given: AnalysisInput) -> Numbers:
    content = io.BytesIO()
    pixels = rearrange(given.images[given.image_index], "c h w -> h w c").cpu().numpy()
    Image.fromarray(pixels).save(content, format="PNG")
    png = base64.b64encode(content.getvalue()).decode()
    return {**given.common_results(), "image_index": given.image_index, "image": png}
