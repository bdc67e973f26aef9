"""What stands below the figure of each analysis: its numbers in a sentence or two."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isopix.analysis.attention import CLASS_TOKEN

Numbers = Mapping[str, Any]


def caption(name: str, numbers: Numbers) -> str:
    """Raises KeyError, TypeError or ValueError where numbers are not what `isopix analyze` keeps."""
    return f"{CAPTIONS[name](numbers)} Step {numbers['step']:,}."


def _distance(numbers: Numbers) -> str:
    shares = [head["relative_to_uniform"] for layer in numbers["layers"] for head in layer["heads"]]
    where = " (over what the mask allows)" if numbers["causal"] else ""
    if any(" " in str(layer["layer"]) for layer in numbers["layers"]):
        where = " (along its row, or its column)"
    leading = "" if numbers["renormalized"] else " What is given to leading tokens counts as distance 0."
    return (
        f"Attention distance: the mean distance in pixels from a position to what it looks at, weighted by"
        f" its attention. A dot is a head, its bar one deviation over {numbers['images']:,}"
        f" images{_of(numbers)}; the broken line is attention that looks everywhere alike{where}, of which"
        f" heads reach {min(shares):.0%} to {max(shares):.0%}.{leading}"
    )


def _maps(numbers: Numbers) -> str:
    grey = "; grey is what a causal network may not see" if numbers["causal"] else ""
    return (
        f"Attention from {_origins(numbers)} of an image{_of(numbers)}, of every head (rows)"
        f" and layer (columns). Darker is more, as the root of the share of each map’s largest"
        f" weight{grey}."
    )


def _rollout(numbers: Numbers) -> str:
    return (
        f"Attention rollout: what of an image{_of(numbers)} reaches {_origins(numbers)}; layers multiplied,"
        f" heads averaged, half of each layer left to the residual stream. It says what can flow through"
        f" attention, not what is used."
    )


def _places(numbers: Numbers) -> str:
    shown = "Cosine similarity of position embeddings: each small map is of the position at which it stands."
    if "trained" not in numbers:
        return shown
    own, chance = numbers["trained"], numbers["shuffled"]
    untrained = f"; untrained {numbers['untrained']['partial_2d']:.2f}" if "untrained" in numbers else ""
    return (
        f"{shown} It follows nearness in the plane, beyond what raster order explains, with a rank"
        f" correlation of {own['partial_2d']:.2f}{untrained}, at shuffled places"
        f" {chance['mean']:.2f} ± {chance['std']:.2f}. It follows raster order, beyond the plane,"
        f" with {own['partial_raster']:.2f}."
    )


def _embedding(numbers: Numbers) -> str:
    if numbers["weights"] == "filters":
        count, share = len(numbers["explained_variance_ratio"]), sum(numbers["explained_variance_ratio"])
        return (
            f"The {count} widest principal components of the patch embedding’s filters, each with the share"
            f" of variance that it explains; together {share:.0%}. Grey is zero."
        )
    what = "Every colour of the palette" if "colors" in numbers else "Every level of each channel"
    explained = ", ".join(f"{sum(table['explained_variance_ratio'][:3]):.0%}" for table in numbers["tables"])
    return (
        f"{what} where the principal components of its vectors put it; the first three explain {explained}."
    )


def _biases(numbers: Numbers) -> str:
    last = numbers["layers"][-1]
    return (
        f"Left: how far features of a shifted image are from the shifted features; middle: the same for"
        f" positions in random order. 0 is equality, 1 no better than chance. Right: how far a change of"
        f" one position shows, on average; the broken line is a change that shows everywhere alike. At the"
        f" last layer {last['translation_error']:.2f}, {last['permutation_error']:.2f} and"
        f" {last['receptive_field_mean']:.1f}, on"
        f" {numbers['images']:,} images{_of(numbers)}."
    )


CAPTIONS: dict[str, Callable[[Numbers], str]] = {
    "attention_distance": _distance,
    "attention_maps": _maps,
    "attention_rollout": _rollout,
    "position_embeddings": _places,
    "embedding_pca": _embedding,
    "inductive_biases": _biases,
}


def _origins(numbers: Numbers) -> str:
    """What is looked from."""
    marked = [query for query in numbers["queries"] if query["position"] != CLASS_TOKEN]
    told = ["the class token (framed)"] if len(marked) < len(numbers["queries"]) else []
    if marked:
        told.append(f"the marked position{'s' * (len(marked) > 1)}")
    return " and ".join(told)


def _of(numbers: Numbers) -> str:
    """Where images come from, if that is known."""
    data, split = numbers.get("data"), numbers.get("split")
    return f" of {Path(str(data)).name} ({split})" if data else ""
