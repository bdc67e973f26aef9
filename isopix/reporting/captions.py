"""Captions of the figures of `isopix analyze`, with their main numbers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isopix.analysis.attention import CLASS_TOKEN

Numbers = Mapping[str, Any]


def caption(name: str, numbers: Numbers) -> str:
    """Return a caption. Raises KeyError, TypeError or ValueError for numbers of another kind."""
    return f"{CAPTIONS[name](numbers)} Step {numbers['step']:,}."


def _distance(numbers: Numbers) -> str:
    ratios = [head["relative_to_uniform"] for layer in numbers["layers"] for head in layer["heads"]]
    where = ", causal" if numbers["causal"] else ""
    if any(" " in str(layer["layer"]) for layer in numbers["layers"]):
        where = " along the row or column"
    prefix = "" if numbers["renormalized"] else " Attention to prefix tokens counts as distance 0."
    return (
        f"Mean attention distance in pixels; a dot is a head, bars are one standard deviation over"
        f" {numbers['images']:,} images{_source(numbers)}. Dashed: uniform attention{where}; heads reach"
        f" {min(ratios):.0%} to {max(ratios):.0%} of it.{prefix}"
    )


def _maps(numbers: Numbers) -> str:
    gray = " Gray: masked by causal attention." if numbers["causal"] else ""
    return (
        f"Attention from {_queries(numbers)} of one image{_source(numbers)}, by head (rows) and layer"
        f" (columns). Color: square root of attention / map maximum.{gray}"
    )


def _rollout(numbers: Numbers) -> str:
    return (
        f"Attention rollout from {_queries(numbers)} of one image{_source(numbers)}: heads averaged, residual"
        f" weight one half, layers multiplied. It shows what attention can pass on, not what is used."
    )


def _positions(numbers: Numbers) -> str:
    shown = "Cosine similarity of each position embedding (small map, at its position) with all others."
    if "trained" not in numbers:
        return shown
    own, untrained, shuffled = (numbers[key] for key in ("trained", "untrained", "shuffled"))
    return (
        f"{shown} Partial rank correlation with 2-D distance, raster order controlled:"
        f" {own['partial_2d']:.2f} (untrained {untrained['partial_2d']:.2f}, shuffled positions"
        f" {shuffled['mean']:.2f} ± {shuffled['std']:.2f}). With raster order, 2-D distance controlled:"
        f" {own['partial_raster']:.2f}."
    )


def _embedding(numbers: Numbers) -> str:
    if numbers["weights"] == "filters":
        ratios = numbers["explained_variance_ratio"]
        return (
            f"Leading {len(ratios)} principal components of the patch-embedding filters, each with its"
            f" explained variance; in total {sum(ratios):.0%}. Gray is zero."
        )
    points = "palette colors" if "colors" in numbers else "levels of each channel"
    explained = ", ".join(f"{sum(table['explained_variance_ratio'][:3]):.0%}" for table in numbers["tables"])
    return f"Embeddings of the {points} on their principal components; the first three explain {explained}."


def _biases(numbers: Numbers) -> str:
    last = numbers["layers"][-1]
    return (
        f"Relative error of features under translation (left) and permuted positions (middle): 0 is"
        f" equivariant, 1 is no better than chance. Right: mean distance at which a change of one"
        f" position shows; dashed: uniform. Last layer: {last['translation_error']:.2f},"
        f" {last['permutation_error']:.2f}, {last['receptive_field_mean']:.1f};"
        f" {numbers['images']:,} images{_source(numbers)}."
    )


CAPTIONS: dict[str, Callable[[Numbers], str]] = {
    "attention_distance": _distance,
    "attention_maps": _maps,
    "attention_rollout": _rollout,
    "position_embeddings": _positions,
    "embedding_pca": _embedding,
    "inductive_biases": _biases,
}


def _queries(numbers: Numbers) -> str:
    marked = [query for query in numbers["queries"] if query["position"] != CLASS_TOKEN]
    names = ["the class token (framed)"] if len(marked) < len(numbers["queries"]) else []
    if marked:
        names.append(f"the marked position{'s' * (len(marked) > 1)}")
    return " and ".join(names)


def _source(numbers: Numbers) -> str:
    data, split = numbers.get("data"), numbers.get("split")
    return f" of {Path(str(data)).name} ({split})" if data else ""
