"""Analyses of attention weights: distance, maps and rollout."""

import base64
from collections.abc import Iterator
from statistics import mean
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from isopix.analysis import attention
from isopix.analysis.base import Analysis, AnalysisInput, Numbers, image_source, rounded
from isopix.core.registry import register
from isopix.core.text import Table
from isopix.model.attention import AttentionAxis
from isopix.model.network import Network
from isopix.plots.attention import plot_attention_distance, plot_attention_maps, plot_attention_rollout
from isopix.plots.images import png_bytes


class _AttentionAnalysis(Analysis):
    def not_applicable_reason(self, network: Network) -> str | None:
        return None if network.backbone.has_attention_weights else "this network has no attention weights"


@register("attention_distance")
class AttentionDistance(_AttentionAnalysis):
    """Distance in pixels and entropy in nats of every head: mean and standard deviation over images."""

    figure = staticmethod(plot_attention_distance)

    def compute(self, given: AnalysisInput) -> Numbers:
        patch_size = given.codec.patch_size
        measured = attention.attention_per_head(
            given.network, given.images, patch_size=patch_size, renormalize=given.renormalize
        )
        layers = []
        for (layer, span), *values in zip(given.backbone.attention_axes(), *measured, strict=True):
            uniform = attention.uniform_attention_distance(
                span.grid, patch_size=patch_size, causal=given.causal
            )
            uniform_entropy = attention.uniform_attention_entropy(span.grid, causal=given.causal)
            heads = [
                {
                    **_mean_and_std(distance, ""),
                    "relative_to_uniform": float(distance.mean()) / uniform if uniform else 1.0,
                    **_mean_and_std(entropy, "entropy_"),
                    "relative_entropy": float(entropy.mean()) / uniform_entropy if uniform_entropy else 1.0,
                }
                for distance, entropy in zip(*values, strict=True)
            ]
            name = _layer_name(layer, span)
            layers.append({"layer": name, "heads": heads, "uniform_entropy": uniform_entropy})
        return {
            **given.common_results(),
            "images": len(given.images),
            "renormalized": given.renormalize,
            "uniform_distances": _uniform_distances(given),
            "layers": layers,
        }

    def caption(self, numbers: Numbers) -> str:
        prefix = "" if numbers["renormalized"] else " Attention to prefix tokens counts as distance 0."
        return (
            "Mean attention distance in pixels, and entropy of attention as a fraction of that of uniform"
            " attention (1: uniform, 0: one position). A dot is a head, bars are one standard deviation over"
            f" {numbers['images']:,} images{image_source(numbers)}. Dashed: uniform attention.{prefix}"
        )

    def table(self, numbers: Numbers) -> Table:
        rows = []
        keys = ("mean", "std", "relative_to_uniform", "relative_entropy")
        for layer in numbers["layers"]:
            means, stds, *relative = ([head[key] for head in layer["heads"]] for key in keys)
            pixels = (f"{each:.2f}" for each in (mean(means), min(means), max(means), mean(stds)))
            rows.append((layer["layer"], *pixels, *(f"{mean(each):.0%}" for each in relative)))
        uniform = ", ".join(f"{kind} {pixels:.1f}" for kind, pixels in numbers["uniform_distances"].items())
        columns = ("layer", "mean", "min over heads", "max over heads", "std over images")
        return Table(
            f"Attention distance in pixels, {numbers['images']} images; uniform attention: {uniform}",
            (*columns, "relative to uniform", "entropy, relative to uniform"),
            rows,
        )


@register("attention_maps")
class AttentionMaps(_AttentionAnalysis):
    """Attention of every head of every layer, from some positions of one image."""

    figure = staticmethod(plot_attention_maps)

    def compute(self, given: AnalysisInput) -> Numbers:
        maps, _, uniform, _ = _maps(given)
        entropies = torch.special.entr(maps).flatten(-2).sum(-1)
        return {
            **_by_query(given, heads=maps, entropies=entropies, uniform=uniform),
            "layer_names": [_layer_name(layer, span) for layer, span in given.backbone.attention_axes()],
        }

    def caption(self, numbers: Numbers) -> str:
        return (
            "Attention from the marked positions, or the class token (framed), of one image"
            f"{image_source(numbers)}, by head (rows) and layer (columns), divided by uniform attention. Gray"
            " may not be attended to. Below each map: its entropy as a fraction of that of uniform attention."
        )


@register("attention_rollout")
class AttentionRollout(_AttentionAnalysis):
    """Attention rollout over all layers, from some positions of one image."""

    figure = staticmethod(plot_attention_rollout)

    def compute(self, given: AnalysisInput) -> Numbers:
        _, rollout, _, uniform = _maps(given)
        return _by_query(given, rollout=rollout, uniform=uniform)

    def caption(self, numbers: Numbers) -> str:
        return (
            "Attention rollout from the marked positions, or the class token (framed), of one image"
            f"{image_source(numbers)}, divided by that of uniform attention. It shows what attention can pass"
            " on, not what is used."
        )


def _maps(given: AnalysisInput) -> Iterator[Float[Tensor, "queries *maps rows cols"]]:
    """Yield the maps of `QueryAttention`, each on the grid."""
    first, (rows, cols) = given.backbone.num_prefix_tokens, given.backbone.grid
    tokens = [
        0 if each == attention.CLASS_TOKEN else first + each[0] * cols + each[1] for each in given.queries
    ]
    image = given.images[given.image_index][None]
    for maps in attention.attention_from(given.network, image, torch.tensor(tokens), causal=given.causal):
        yield rearrange(maps, "... (h w) -> ... h w", h=rows)


def _by_query(given: AnalysisInput, **columns: Float[Tensor, "queries ..."]) -> dict[str, Any]:
    pixels = rearrange(given.images[given.image_index], "c h w -> h w c").cpu().numpy()
    return {
        **given.common_results(),
        "image_index": given.image_index,
        "image": base64.b64encode(png_bytes(Image.fromarray(pixels))).decode(),
        "queries": [
            {"position": position, **{name: rounded(values[i]) for name, values in columns.items()}}
            for i, position in enumerate(given.queries)
        ],
    }


def _mean_and_std(values: Float[Tensor, " B"], prefix: str) -> dict[str, float]:
    std = values.std(correction=min(1, len(values) - 1))
    return {f"{prefix}mean": float(values.mean()), f"{prefix}std": float(std)}


def _layer_name(layer: int, span: AttentionAxis) -> str:
    """Return `1`, or `1 rows` and `1 columns` for the two attentions of an axial block."""
    return f"{layer} {span.name}".strip()


def _uniform_distances(given: AnalysisInput) -> dict[str, float]:
    grid, patch_size = given.backbone.grid, given.codec.patch_size
    if given.causal:
        causal = attention.uniform_attention_distance(grid, patch_size=patch_size, causal=True)
        return {
            "all positions": attention.uniform_attention_distance(grid, patch_size=patch_size),
            "causal": causal,
        }
    return {
        span.name or "all positions": attention.uniform_attention_distance(span.grid, patch_size=patch_size)
        for _, span in given.backbone.attention_axes()
    }
