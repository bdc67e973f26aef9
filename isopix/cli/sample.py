"""`isopix sample`: sample images from a run."""

from pathlib import Path

from isopix.cli.console import Device, Json, Plugins, Seed, load_plugins
from isopix.cli.loading import Count, Temperature, TopK, TopP, load_network, save_figure
from isopix.cli.progress import progress_bar
from isopix.core.random import generator
from isopix.generate import sample as sampling
from isopix.plots import images as pictures
from isopix.storage.run_folder import RunFolder


def sample(
    run: Path,
    *,
    count: Count = 16,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = 0,
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
    folder, loaded = RunFolder.open(run), load_network(run, device)
    settings = sampling.SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p)
    with progress_bar("sampling", loaded.recipe.grid.positions) as done:
        images = sampling.sample(
            loaded.model, count, sampling=settings, generator=generator(seed, "sample"), progress=done
        )
    numbers = {"kind": "samples", "step": loaded.step, "seed": seed, "count": count}
    numbers |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    name = f"samples-{loaded.step:08d}-seed{seed}"
    save_figure(folder, name, pictures.sample_grid(images.cpu()), numbers, json=json)
