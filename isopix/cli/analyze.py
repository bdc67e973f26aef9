"""`isopix analyse`: what a network looks at, and what it takes for granted; numbers, and figures of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.analysis.attention import CLASS
from isopix.analysis.run import DoesNotApplyError, Place, Subject
from isopix.analysis.run import analyse as analyses
from isopix.cli.console import Device, Json, OtherImages, say, show_json, show_table
from isopix.cli.loading import Positive, Split, network_of, split_to_draw
from isopix.cli.progress import counting
from isopix.plots import style
from isopix.plots.analyses import DRAW
from isopix.storage.atomic import report_disk_full
from isopix.storage.provenance import with_provenance
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
BULKY = ("image", "queries", "maps", "tables", "components", "colours", "explained")  # kept in files alone


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
        subject = Subject(loaded, images, image, places, renormalise, done)
        for name, answer in analyses(subject):
            if isinstance(answer, DoesNotApplyError):
                reasons[name] = str(answer)
            else:
                found[name] = with_provenance({**answer, "data": source.name, "split": taken})
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


def place_of(word: str) -> Place:
    """`8,16` as row and column, or `class`. Raises ValueError for any other word."""
    if word == CLASS:
        return CLASS
    parts = word.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--position is '{word}'; allowed: ROW,COLUMN, as in 8,16, or class")
    return int(parts[0]), int(parts[1])


def _keep(folder: RunFolder, found: Mapping[str, Numbers]) -> None:
    """All of this time, and nothing of another."""
    folder.analysis.mkdir(exist_ok=True)
    for name, draw in DRAW.items():
        stem = folder.analysis / name
        for suffix in (".json", ".png", ".svg"):
            stem.with_suffix(suffix).unlink(missing_ok=True)
        if name in found:
            with report_disk_full(str(stem), folder.analysis):
                style.save(draw(found[name]), stem, found[name])


def _brief(numbers: Numbers) -> dict[str, Any]:
    return {key: value for key, value in numbers.items() if key not in BULKY}


def _distance(numbers: Numbers) -> None:
    even = ", ".join(f"{where} {pixels:.1f}" for where, pixels in numbers["even_distances"].items())
    rows = []
    for layer in numbers["layers"]:
        heads = [head["pixels"] for head in layer["heads"]]
        share = sum(head["of_even"] for head in layer["heads"]) / len(heads)
        spread = sum(head["deviation"] for head in layer["heads"]) / len(heads)
        values = (sum(heads) / len(heads), min(heads), max(heads), spread)
        rows.append((layer["layer"], *(f"{value:.2f}" for value in values), f"{share:.0%}"))
    show_table(
        f"Attention distance in pixels, {numbers['images']} images; even: {even}",
        ["layer", "mean of heads", "nearest", "farthest", "± over images", "of even"],
        rows,
    )


def _positions(numbers: Numbers) -> None:
    if "plane" not in numbers:
        return
    rows = [
        (name, *(f"{numbers[key][score]:.2f}" for score in ("planar", "raster", "near_plane", "near_raster")))
        for name, key in (("trained", "plane"), ("untrained", "untrained"))
    ]
    show_table(
        "How 2-D the positions are: rank correlation of their similarity with nearness, -1 to 1",
        ["", "in the plane, given raster", "in raster, given the plane", "in the plane", "in raster"],
        rows,
    )
    chance = numbers["shuffled"]
    say(f"shuffled: {chance['mean']:.3f} ± {chance['deviation']:.3f} in the plane, given raster")


def _embedding(numbers: Numbers) -> None:
    tables = [numbers] if numbers["of"] == "filters" else numbers["tables"]
    rows = [
        (str(place), *(f"{sum(table['explained'][:count]):.1%}" for count in (1, 2, 3, 8)))
        for place, table in enumerate(tables, start=1)
    ]
    title = f"Variance of the embedding's {numbers['of']} that the first components explain"
    show_table(title, ["table", "1", "2", "3", "8"], rows)


def _biases(numbers: Numbers) -> None:
    rows = [
        (
            str(layer["layer"]),
            *(f"{layer[key]:.2f}" for key in ("translation", "order", "reach")),
            f"{layer['radius']}",
        )
        for layer in numbers["layers"]
    ]
    even = f"{numbers['even_reach']:.1f}"
    show_table(
        f"Inductive biases, {numbers['images']} images; a reach of {even} positions is even",
        ["layer", "error when shifted", "when permuted", "reach", "radius of 95 %"],
        rows,
    )


def _nothing(numbers: Numbers) -> None:
    """Pictures have no table."""


SHOW: dict[str, Callable[[Numbers], None]] = {
    "attention-distance": _distance,
    "positions": _positions,
    "embedding": _embedding,
    "biases": _biases,
}
