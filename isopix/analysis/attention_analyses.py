"""Analyses of attention weights: distance, maps and rollout."""

import base64
import io
from typing import Any

import torch
from einops import rearrange
from PIL import Image

from isopix.analysis.attention import (
    CLASS_TOKEN,
    QueryAttention,
    attention_distance_per_head,
    attention_from,
    uniform_attention_distance,
)
from isopix.analysis.base import (
    Analysis,
    AnalysisInput,
    Numbers,
    QueryPosition,
    SummaryTable,
    image_source,
    rounded,
)
from isopix.core.registry import register
from isopix.model.attention import AttentionAxis
from isopix.model.backbone import Backbone
from isopix.model.network import Network
from isopix.plots.attention import plot_attention_distance, plot_attention_maps, plot_attention_rollout
from isopix.plots.style import Figure


class _AttentionAnalysis(Analysis):
    def not_applicable_reason(self, network: Network) -> str | None:
        return None if network.backbone.has_attention_weights else "this network has no attention weights"


@register("attention_distance")
class AttentionDistance(_AttentionAnalysis):
    """Attention distance of every head in pixels: mean and standard deviation over images."""

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

    def figure(self, numbers: Numbers) -> Figure:
        return plot_attention_distance(numbers)

    def caption(self, numbers: Numbers) -> str:
        ratios = [head["relative_to_uniform"] for layer in numbers["layers"] for head in layer["heads"]]
        where = ", causal" if numbers["causal"] else ""
        if any(" " in str(layer["layer"]) for layer in numbers["layers"]):
            where = " along the row or column"
        prefix = "" if numbers["renormalized"] else " Attention to prefix tokens counts as distance 0."
        return (
            f"Mean attention distance in pixels; a dot is a head, bars are one standard deviation over"
            f" {numbers['images']:,} images{image_source(numbers)}. Dashed: uniform attention{where}; heads"
            f" reach {min(ratios):.0%} to {max(ratios):.0%} of it.{prefix}"
        )

    def table(self, numbers: Numbers) -> SummaryTable:
        rows = []
        for layer in numbers["layers"]:
            means, stds, ratios = (
                [head[key] for head in layer["heads"]] for key in ("mean", "std", "relative_to_uniform")
            )
            values = (sum(means) / len(means), min(means), max(means), sum(stds) / len(stds))
            relative = f"{sum(ratios) / len(ratios):.0%}"
            rows.append((layer["layer"], *(f"{value:.2f}" for value in values), relative))
        uniform = ", ".join(f"{kind} {pixels:.1f}" for kind, pixels in numbers["uniform_distances"].items())
        return SummaryTable(
            f"Attention distance in pixels, {numbers['images']} images; uniform attention: {uniform}",
            ("layer", "mean", "min over heads", "max over heads", "std over images", "relative to uniform"),
            rows,
        )


@register("attention_maps")
class AttentionMaps(_AttentionAnalysis):
    """Attention of every head of every layer, from some positions of one image."""

    bulky = frozenset({"image", "queries"})

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return a map by query position, layer and head."""
        maps = rearrange(_attention(given).heads, "q l a (h w) -> q l a h w", h=given.backbone.grid.rows)
        return {
            **_image(given),
            "layer_names": [_layer_name(layer, span) for layer, span in given.backbone.attention_axes()],
            "queries": [
                {"position": position, "heads": rounded(heads)}
                for position, heads in zip(given.queries, maps, strict=True)
            ],
        }

    def figure(self, numbers: Numbers) -> Figure:
        return plot_attention_maps(numbers)

    def caption(self, numbers: Numbers) -> str:
        gray = " Gray: masked by causal attention." if numbers["causal"] else ""
        return (
            f"Attention from {_queries(numbers)} of one image{image_source(numbers)}, by head (rows) and"
            f" layer (columns). Color: square root of attention / map maximum.{gray}"
        )


@register("attention_rollout")
class AttentionRollout(_AttentionAnalysis):
    """Attention rollout over all layers, from some positions of one image."""

    bulky = frozenset({"image", "queries"})

    def compute(self, given: AnalysisInput) -> Numbers:
        """Return a map by query position."""
        maps = rearrange(_attention(given).rollout, "q (h w) -> q h w", h=given.backbone.grid.rows)
        return {
            **_image(given),
            "queries": [
                {"position": position, "rollout": rounded(rollout)}
                for position, rollout in zip(given.queries, maps, strict=True)
            ],
        }

    def figure(self, numbers: Numbers) -> Figure:
        return plot_attention_rollout(numbers)

    def caption(self, numbers: Numbers) -> str:
        return (
            f"Attention rollout from {_queries(numbers)} of one image{image_source(numbers)}: heads averaged,"
            f" residual weight one half, layers multiplied. It shows what attention can pass on, not what is"
            f" used."
        )


def _attention(given: AnalysisInput) -> QueryAttention:
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


def _uniform_distances(given: AnalysisInput) -> dict[str, float]:
    """Return the distance of uniform attention, by the positions that it may attend to."""
    grid, patch_size = given.backbone.grid, given.codec.patch_size
    if given.causal:
        causal = uniform_attention_distance(grid, patch_size=patch_size, causal=True)
        return {"all positions": uniform_attention_distance(grid, patch_size=patch_size), "causal": causal}
    return {
        span.name or "all positions": uniform_attention_distance(span.grid, patch_size=patch_size)
        for _, span in given.backbone.attention_axes()
    }


def _image(given: AnalysisInput) -> dict[str, Any]:
    content = io.BytesIO()
    pixels = rearrange(given.images[given.image_index], "c h w -> h w c").cpu().numpy()
    Image.fromarray(pixels).save(content, format="PNG")
    png = base64.b64encode(content.getvalue()).decode()
    return {**given.common_results(), "image_index": given.image_index, "image": png}


def _queries(numbers: Numbers) -> str:
    marked = [query for query in numbers["queries"] if query["position"] != CLASS_TOKEN]
    names = ["the class token (framed)"] if len(marked) < len(numbers["queries"]) else []
    if marked:
        names.append(f"the marked position{'s' * (len(marked) > 1)}")
    return " and ".join(names)
