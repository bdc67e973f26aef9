"""`isopix sample`: sample images from a run."""

from pathlib import Path

from isopix.api import generation
from isopix.cli.console import (
    Count,
    Device,
    Json,
    Plugins,
    Seed,
    load_plugins,
    show_saved,
)
from isopix.cli.progress import progress_bar
from isopix.cli.sampling_options import Compile, SamplingPrecision, Temperature, TopK, TopP


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
        Run folder.
    """
    load_plugins(plugin)
    with progress_bar("sampling") as progress:
        found = generation.sample(
            run,
            count,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            precision=precision,
            compile=compile,
            device=device,
            progress=progress,
        )
    show_saved(found.record, found.path, json=json)
