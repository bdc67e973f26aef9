"""`isopix analyze`: attention, position embeddings, filters and inductive biases of a network."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.analysis.attention import CLASS_TOKEN
from isopix.analysis.base import QueryPosition
from isopix.api import inspection
from isopix.cli.console import (
    Device,
    Json,
    OtherImages,
    Plugins,
    Positive,
    Split,
    load_plugins,
    say,
    show_json,
    show_table,
)
from isopix.cli.progress import progress_bar

Numbers = Mapping[str, Any]

Images = Annotated[int, Parameter(validator=Positive, help="Number of images to average over.")]
Positions = Annotated[
    list[str] | None,
    Parameter(
        name="--position",
        negative="",
        help="Query position of attention maps: ROW,COLUMN, counted from 0, or `class` for the class token, "
        "the default of networks that have one; repeatable.",
    ),
]
LAYOUT_SCORES = ("partial_2d", "partial_raster", "plain_2d", "plain_raster")
BULKY = (
    "image",
    "queries",
    "maps",
    "tables",
    "components",
    "colors",
    "explained_variance_ratio",
)  # saved to files only


def analyze(
    run: Path,
    *,
    data: OtherImages = None,
    split: Split = None,
    limit: Images = 128,
    image: int = 0,
    position: Positions = None,
    renormalize: bool = True,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Analyze attention, position embeddings, filters and inductive biases of a run.

    Attention distance, maps and rollout; similarity of position embeddings; PCA of the embedding; errors
    under shifts and permutations. Numbers and figures go to the run's `analysis` folder, from which
    `isopix report` shows them.

    Example: isopix analyze runs/photos --limit 32 --position 8,8 --position 24,16

    Parameters
    ----------
    run
        Run folder.
    image
        Index of the image to draw attention maps for, counted from 0; below --limit.
    renormalize
        Exclude attention to a class token from distances; otherwise it counts as distance 0, as in much
        published code.
    """
    load_plugins(plugin)
    positions = tuple(parse_position(word) for word in position or ())
    with progress_bar("analysis") as progress:
        found = inspection.analyze(
            run,
            data=data,
            split=split,
            limit=limit,
            image=image,
            positions=positions,
            renormalize=renormalize,
            device=device,
            progress=progress,
        )
    if json:
        short = {name: _without_bulk(numbers) for name, numbers in found.results.items()}
        reasons = dict(found.not_applicable)
        show_json({"folder": str(found.path), "analyses": short, "not_applicable": reasons})
        return
    for name, numbers in found.results.items():
        if name in PRINT:
            PRINT[name](numbers)
    for name, reason in found.not_applicable.items():
        say(f"{name} does not apply: {reason}")
    say(f"wrote {', '.join(found.results)} to {found.path}")


def parse_position(word: str) -> QueryPosition:
    """Parse `8,16` into row and column, or return `class`. Raises ValueError for anything else."""
    if word == CLASS_TOKEN:
        return CLASS_TOKEN
    parts = word.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--position is '{word}'; allowed: ROW,COLUMN such as 8,16, or class")
    return int(parts[0]), int(parts[1])


def _without_bulk(numbers: Numbers) -> dict[str, Any]:
    return {key: value for key, value in numbers.items() if key not in BULKY}


def _print_distance(numbers: Numbers) -> None:
    uniform = ", ".join(f"{kind} {pixels:.1f}" for kind, pixels in numbers["uniform_distances"].items())
    rows = []
    for layer in numbers["layers"]:
        heads = [head["mean"] for head in layer["heads"]]
        relative = sum(head["relative_to_uniform"] for head in layer["heads"]) / len(heads)
        std = sum(head["std"] for head in layer["heads"]) / len(heads)
        values = (sum(heads) / len(heads), min(heads), max(heads), std)
        rows.append((layer["layer"], *(f"{value:.2f}" for value in values), f"{relative:.0%}"))
    show_table(
        f"Attention distance in pixels, {numbers['images']} images; uniform attention: {uniform}",
        ["layer", "mean", "min over heads", "max over heads", "std over images", "relative to uniform"],
        rows,
    )


def _print_positions(numbers: Numbers) -> None:
    if "trained" not in numbers:
        return
    rows = [
        (key, *(f"{numbers[key][score]:.2f}" for score in LAYOUT_SCORES))
        for key in ("trained", "untrained")
        if key in numbers
    ]
    show_table(
        "Position embeddings: Spearman correlation of similarity with proximity",
        ["network", "2-D, given raster order", "raster order, given 2-D", "2-D", "raster order"],
        rows,
    )
    shuffled = numbers["shuffled"]
    say(f"shuffled positions: 2-D, given raster order: {shuffled['mean']:.3f} ± {shuffled['std']:.3f}")


def _print_embedding(numbers: Numbers) -> None:
    tables = [numbers] if numbers["weights"] == "filters" else numbers["tables"]
    rows = [
        (str(i), *(f"{sum(table['explained_variance_ratio'][:count]):.1%}" for count in (1, 2, 3, 8)))
        for i, table in enumerate(tables, start=1)
    ]
    title = f"PCA of the embedding's {numbers['weights']}: variance explained by the leading components"
    show_table(title, ["table", "1", "2", "3", "8"], rows)


def _print_biases(numbers: Numbers) -> None:
    rows = [
        (
            str(layer["layer"]),
            *(
                f"{layer[key]:.2f}"
                for key in ("translation_error", "permutation_error", "receptive_field_mean")
            ),
            f"{layer['receptive_field_radius_95']}",
        )
        for layer in numbers["layers"]
    ]
    show_table(
        f"Inductive biases, {numbers['images']} images; uniform receptive field: mean distance "
        f"{numbers['uniform_receptive_field_mean']:.1f} positions",
        ["layer", "translation error", "permutation error", "mean distance", "95 % radius"],
        rows,
    )


PRINT: dict[str, Callable[[Numbers], None]] = {
    "attention_distance": _print_distance,
    "position_embeddings": _print_positions,
    "embedding_pca": _print_embedding,
    "inductive_biases": _print_biases,
}
