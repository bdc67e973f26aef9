"""`isopix sample`: images from nothing."""

from pathlib import Path

from isopix.cli.console import Device, Json, Seed
from isopix.cli.loading import Count, Temperature, TopK, TopP, keep, network_of
from isopix.cli.progress import counting
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
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw images from an autoregressive run, pixel by pixel; keeps a PNG grid in its `samples` folder.

    Example: isopix sample runs/photos -n 16 --temperature 0.95

    Parameters
    ----------
    run
        The run folder.
    """
    folder, loaded = RunFolder.open(run), network_of(run, device)
    how = sampling.Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    with counting("painting", loaded.recipe.grid.positions) as done:
        drawn = sampling.sample(
            loaded.model, count, sampling=how, generator=generator(seed, "sample"), progress=done
        )
    numbers = {"kind": "samples", "step": loaded.step, "seed": seed, "count": count}
    numbers |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    keep(folder, f"samples-{loaded.step:08d}-seed{seed}", pictures.samples(drawn.cpu()), numbers, json=json)
