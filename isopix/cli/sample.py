"""`isopix sample`: sample images from a run."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import generation
from isopix.api.generation_results import NearestTrainingImages
from isopix.cli.console import (
    Count,
    Device,
    Json,
    Plugins,
    Seed,
    load_plugins,
    say,
    show_saved,
)
from isopix.cli.sampling_options import Compile, SamplingPrecision, Temperature, TopK, TopP

Nearest = Annotated[bool, Parameter(help="Also show the nearest training image of each sample.", negative="")]


def sample(
    run: Path,
    *,
    count: Count = 16,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = 0,
    precision: SamplingPrecision = "fp32",
    compile: Compile = None,
    nearest: Nearest = False,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Sample images from an autoregressive run, pixel by pixel.

    Writes a PNG grid to the run's `samples` folder.

    Example: isopix sample runs/photos -n 16 --temperature 0.95

    Parameters
    ----------
    run
        Run folder, or a model that `isopix models` lists.
    """
    load_plugins(plugin)
    found = generation.sample(
        run,
        count,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        precision=precision,
        compile=compile,
        nearest=nearest,
        device=device,
    )
    if found.nearest is None:
        show_saved(found.record, found.path, json=json)
        return
    if not json:
        show_saved(found.record, found.path, json=False)
        _show_distances(found.nearest)
    show_saved({**found.record, "nearest": found.nearest.record}, found.nearest.path, json=json)


def _show_distances(found: NearestTrainingImages) -> None:
    held_out = found.held_out
    compared = f"; of {len(held_out):,} held-out images: {held_out.median():.1f}" if len(held_out) else ""
    say(
        f"median distance of samples to the nearest of {found.num_training:,} training images: "
        f"{found.distances.median():.1f} levels{compared}"
    )
