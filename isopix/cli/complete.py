"""`isopix complete`: images from their first rows."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import Device, Json, Limit, OtherImages, Seed
from isopix.cli.loading import (
    Count,
    Positive,
    Split,
    Temperature,
    TopK,
    TopP,
    first_images,
    keep,
    network_of,
    split_to_draw,
)
from isopix.cli.progress import counting
from isopix.core.random import generator
from isopix.generate import complete as completion
from isopix.generate.sample import Sampling, require_causal
from isopix.plots import images as pictures
from isopix.storage.run_folder import RunFolder

Rows = Annotated[int | None, Parameter(help="how many rows are given; half of them without it")]
Each = Annotated[int, Parameter(validator=Positive, help="completions of each image")]


def complete(
    run: Path,
    *,
    data: OtherImages = None,
    split: Split = None,
    count: Count = 8,
    rows: Rows = None,
    each: Each = 3,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Complete images from their first rows with an autoregressive run; keeps a PNG grid in its `samples`
    folder.

    Example: isopix complete runs/photos --rows 16 --each 3 -n 8

    Parameters
    ----------
    run
        The run folder.
    """
    folder, loaded = RunFolder.open(run), network_of(run, device)
    require_causal(loaded.model)
    found, taken = split_to_draw(loaded, data, split, limit)
    images = first_images(found, taken, count)
    given = loaded.recipe.grid.rows // 2 if rows is None else rows
    how = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    with counting("painting", loaded.recipe.grid.positions) as done:
        drawn = completion.complete(
            loaded.model,
            images.to(loaded.network.device),
            rows=given,
            each=each,
            sampling=how,
            generator=generator(seed, "complete"),
            progress=done,
        )
    picture = pictures.completions(images, drawn.cpu(), rows=given, each=each)
    numbers = {"kind": "completions", "step": loaded.step, "seed": seed, "count": count}
    numbers |= {"rows": given, "each": each, "data": data or loaded.recipe.data.source, "split": taken}
    numbers |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    keep(folder, f"completions-{loaded.step:08d}-rows{given}-seed{seed}", picture, numbers, json=json)
