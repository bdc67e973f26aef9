"""`isopix analyze`: attention, position embeddings, filters and inductive biases of a network."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.analysis.attention import CLASS_TOKEN
from isopix.analysis.base import QueryPosition
from isopix.analysis.run import registered_analyses
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
    say_wrapped,
    show_json,
    show_table,
)

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
Only = Annotated[
    list[str] | None,
    Parameter(
        name="--only",
        negative="",
        help="Name of an analysis to run, such as attention_distance; repeatable. Default: all.",
    ),
]


def analyze(
    run: Path,
    *,
    data: OtherImages = None,
    split: Split = None,
    limit: Images = 128,
    image: int = 0,
    position: Positions = None,
    renormalize: bool = True,
    only: Only = None,
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
        Run folder, or a model that `isopix models` lists.
    image
        Index of the image to draw attention maps for, counted from 0; below --limit.
    renormalize
        Exclude attention to a class token from distances; otherwise it counts as distance 0, as in much
        published code.
    """
    load_plugins(plugin)
    positions = tuple(parse_position(word) for word in position or ())
    found = inspection.analyze(
        run,
        data=data,
        split=split,
        limit=limit,
        image=image,
        positions=positions,
        renormalize=renormalize,
        only=only or (),
        device=device,
    )
    analyses = registered_analyses()
    if json:
        short = {
            name: {key: value for key, value in numbers.items() if key not in analyses[name].bulky}
            for name, numbers in found.results.items()
        }
        reasons = dict(found.not_applicable)
        show_json({"folder": str(found.path), "analyses": short, "not_applicable": reasons})
        return
    for name, numbers in found.results.items():
        if table := analyses[name].table(numbers):
            show_table(*table[:3])
            if table.note:
                say_wrapped(table.note)
                say("")
    for name, reason in found.not_applicable.items():
        say_wrapped(f"{name} does not apply: {reason}")
    if found.results:
        say(f"wrote {', '.join(found.results)} to {found.path}")


def parse_position(word: str) -> QueryPosition:
    """Parse `8,16` into row and column, or return `class`. Raises ValueError for anything else."""
    if word == CLASS_TOKEN:
        return CLASS_TOKEN
    parts = word.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--position is '{word}'; allowed: ROW,COLUMN such as 8,16, or class")
    return int(parts[0]), int(parts[1])
