"""`isopix reconstruct`: predict masked pixels or patches from the visible ones."""

from pathlib import Path

from isopix.cli.console import Device, Json, Limit, OtherImages, Plugins, Seed, load_plugins
from isopix.cli.loading import Count, Split, first_images, load_network, save_figure, select_split
from isopix.core.random import generator
from isopix.generate import reconstruct as reconstruction
from isopix.plots import images as pictures
from isopix.storage.run_folder import RunFolder


def reconstruct(
    run: Path,
    *,
    data: OtherImages = None,
    split: Split = None,
    count: Count = 8,
    limit: Limit = None,
    seed: Seed = 0,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Mask pixels or patches as in training and fill them in with the predictions of a masked run.

    Writes a PNG grid to the run's `samples` folder.

    Example: isopix reconstruct runs/photos-bert -n 8

    Parameters
    ----------
    run
        Run folder.
    """
    load_plugins(plugin)
    folder, loaded = RunFolder.open(run), load_network(run, device)
    reconstruction.require_masked_inputs(loaded.model)
    source, chosen = select_split(loaded, data, split, limit)
    images = first_images(source, chosen, count).to(loaded.network.device)
    found = reconstruction.reconstruct(loaded.model, images, generator=generator(seed, "hide"))
    picture = pictures.reconstruction_grid(found.cpu())
    numbers = {"kind": "reconstructions", "step": loaded.step, "seed": seed, "count": count}
    numbers |= {"data": data or loaded.recipe.data.source, "split": chosen, "accuracy": found.accuracy}
    save_figure(folder, f"reconstructions-{loaded.step:08d}-seed{seed}", picture, numbers, json=json)
