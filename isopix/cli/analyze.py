"""`isopix analyse`: what a network looks at, and what it takes for granted; numbers, and figures of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.analysis.attention import CLASS_TOKEN
from isopix.analysis.base import AnalysisInput, NotApplicable, QueryPosition
from isopix.analysis.run import run_analyses
from isopix.cli.console import Device, Json, OtherImages, say, show_json, show_table
from isopix.cli.loading import Positive, Split, network_of, split_to_draw
from isopix.cli.progress import counting
from isopix.plots import style
from isopix.plots.analyses import ANALYSIS_FIGURES
from isopix.storage.atomic import room_for
from isopix.storage.provenance import record
from isopix.storage.run_folder import RunFolder

Numbers = Mapping[str, Any]

Images = Annotated[int, Parameter(validator=Positive, help="images that distances are measured on")]
Positions = Annotated[
    list[str] | None,
    Parameter(
        name="--position",
        help="ROW,COLUMN of a position, from 0, to look from, or `class`: the class token, the default where "
        "there is one; may be repeated",
    ),
]
BULKY = (  # left out of --json
    "image",
    "queries",
    "maps",
    "tables",
    "components",
    "colors",
    "explained_variance_ratio",
)

LAYOUT_SCORES = ("partial_2d", "partial_raster", "plain_2d", "plain_raster")


def analyse(
    run: Path,
    *,
    data: OtherImages = None,
    split: Split = None,
    limit: Images = 128,
    image: int = 0,
    position: Positions = None,
    renormalise: bool = True,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Attention distance, maps and rollout, similarity of positions, components of the embedding, and
    inductive biases. Numbers and figures are kept in the run's `analysis` folder; `isopix report` shows them.

    Example: isopix analyse runs/photos --limit 32 --position 8,8 --position 24,16

    Parameters
    ----------
    run
        The run folder.
    image
        Number of the image, from 0, that maps are drawn over; one of those that --limit takes.
    renormalise
        Without it, what is given to a class token counts as distance 0, as in much published code.
    """
    folder, loaded = RunFolder.open(run), network_of(run, device)
    places = tuple(place_of(word) for word in position or ())
    source, taken = split_to_draw(loaded, data, split, limit)
    images = getattr(source, taken).images[:limit]
    found: dict[str, Numbers] = {}
    reasons: dict[str, str] = {}
    with counting("attention", len(images)) as done:
        given = AnalysisInput(
            loaded.network,
            images,
            image_index=image,
            query_positions=places,
            renormalize=renormalise,
            seed=loaded.recipe.seed,
            untrained=loaded.untrained,
            progress=done,
        )
        for name, answer in run_analyses(given):
            if isinstance(answer, NotApplicable):
                reasons[name] = answer.reason
            else:
                found[name] = record({"step": loaded.step, **answer, "data": source.name, "split": taken})
    _keep(folder, found)
    if json:
        kept = {name: _brief(numbers) for name, numbers in found.items()}
        show_json({"folder": str(folder.analysis), "analyses": kept, "do_not_apply": reasons})
        return
    for name, numbers in found.items():
        SHOW.get(name, _nothing)(numbers)
    for name, reason in reasons.items():
        say(f"no {name}: {reason}")
    say(f"wrote {', '.join(found)} into {folder.analysis}")


def place_of(word: str) -> QueryPosition:
    """`8,16` as row and column, or `class`. Raises ValueError for any other word."""
    if word == CLASS_TOKEN:
        return CLASS_TOKEN
    parts = word.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--position is '{word}'; allowed: ROW,COLUMN, as in 8,16, or class")
    return int(parts[0]), int(parts[1])


def _keep(folder: RunFolder, found: Mapping[str, Numbers]) -> None:
    """All of this time, and nothing of another."""
    folder.analysis.mkdir(exist_ok=True)
    for name, draw in ANALYSIS_FIGURES.items():
        stem = folder.analysis / name
        for suffix in (".json", ".png", ".svg"):
            stem.with_suffix(suffix).unlink(missing_ok=True)
        if name in found:
            with room_for(str(stem), folder.analysis):
                style.write_figure(draw(found[name]), stem, found[name])


def _brief(numbers: Numbers) -> dict[str, Any]:
    return {key: value for key, value in numbers.items() if key not in BULKY}


def _distance(numbers: Numbers) -> None:
    even = ", ".join(f"{where} {pixels:.1f}" for where, pixels in numbers["uniform_distances"].items())
    rows = []
    for layer in numbers["layers"]:
        heads = [head["mean"] for head in layer["heads"]]
        share = sum(head["relative_to_uniform"] for head in layer["heads"]) / len(heads)
        spread = sum(head["std"] for head in layer["heads"]) / len(heads)
        values = (sum(heads) / len(heads), min(heads), max(heads), spread)
        rows.append((layer["layer"], *(f"{value:.2f}" for value in values), f"{share:.0%}"))
    show_table(
        f"Attention distance in pixels, {numbers['images']} images; even: {even}",
        ["layer", "mean of heads", "nearest", "farthest", "± over images", "of even"],
        rows,
    )


def _positions(numbers: Numbers) -> None:
    if "trained" not in numbers:
        return
    rows = [
        (key, *(f"{numbers[key][score]:.2f}" for score in LAYOUT_SCORES))
        for key in ("trained", "untrained")
        if key in numbers
    ]
    show_table(
        "How 2-D the positions are: rank correlation of their similarity with nearness, -1 to 1",
        ["", "in the plane, given raster", "in raster, given the plane", "in the plane", "in raster"],
        rows,
    )
    chance = numbers["shuffled"]
    say(f"shuffled: {chance['mean']:.3f} ± {chance['std']:.3f} in the plane, given raster")


def _embedding(numbers: Numbers) -> None:
    tables = [numbers] if numbers["weights"] == "filters" else numbers["tables"]
    rows = [
        (str(place), *(f"{sum(table['explained_variance_ratio'][:count]):.1%}" for count in (1, 2, 3, 8)))
        for place, table in enumerate(tables, start=1)
    ]
    title = f"Variance of the embedding's {numbers['weights']} that the first components explain"
    show_table(title, ["table", "1", "2", "3", "8"], rows)


def _biases(numbers: Numbers) -> None:
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
    even = f"{numbers['uniform_receptive_field_mean']:.1f}"
    show_table(
        f"Inductive biases, {numbers['images']} images; a reach of {even} positions is even",
        ["layer", "error when shifted", "when permuted", "reach", "radius of 95 %"],
        rows,
    )


def _nothing(numbers: Numbers) -> None:
    """Pictures have no table."""


SHOW: dict[str, Callable[[Numbers], None]] = {
    "attention_distance": _distance,
    "position_embeddings": _positions,
    "embedding_pca": _embedding,
    "inductive_biases": _biases,
}
