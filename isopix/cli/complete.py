"""`isopix complete`: complete images from their first rows."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import Device, Json, Limit, OtherImages, Plugins, Seed, load_plugins
from isopix.cli.loading import (
    Count,
    Positive,
    Split,
    Temperature,
    TopK,
    TopP,
    first_images,
    load_network,
    save_figure,
    select_split,
)
from isopix.cli.progress import progress_bar
from isopix.core.random import generator
from isopix.generate import complete as completion
from isopix.generate.sample import SamplingConfig, require_sampling
from isopix.plots import images as pictures
from isopix.storage.run_folder import RunFolder

Rows = Annotated[int | None, Parameter(help="Number of rows to start from. Default: half of them.")]
Each = Annotated[int, Parameter(validator=Positive, help="Number of completions per image.")]


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
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Complete images from their first rows with an autoregressive run.

    Writes a PNG grid to the run's `samples` folder.

    Example: isopix complete runs/photos --rows 16 --each 3 -n 8

    Parameters
    ----------
    run
        Run folder.
    """
    load_plugins(plugin)
    folder, loaded = RunFolder.open(run), load_network(run, device)
    require_sampling(loaded.model)
    source, chosen = select_split(loaded, data, split, limit)
    images = first_images(source, chosen, count)
    prompt_rows = loaded.recipe.grid.rows // 2 if rows is None else rows
    sampling = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p)
    with progress_bar("sampling", loaded.recipe.grid.positions) as done:
        completed = completion.complete(
            loaded.model,
            images.to(loaded.network.device),
            rows=prompt_rows,
            samples_per_prompt=each,
            sampling=sampling,
            generator=generator(seed, "complete"),
            progress=done,
        )
    picture = pictures.completion_grid(images, completed.cpu(), rows=prompt_rows, samples_per_prompt=each)
    name = f"completions-{loaded.step:08d}-rows{prompt_rows}-seed{seed}"
    numbers = {"kind": "completions", "step": loaded.step, "seed": seed, "count": count}
    numbers |= {"rows": prompt_rows, "each": each, "data": data or loaded.recipe.data.source, "split": chosen}
    numbers |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    save_figure(folder, name, picture, numbers, json=json)
