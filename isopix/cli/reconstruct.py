"""`isopix reconstruct`: hidden pixels, or patches, from those that are left."""

from pathlib import Path

from isopix.cli.console import Device, Json, Limit, OtherImages, Seed
from isopix.cli.loading import Count, Split, first_images, keep, network_of, split_to_draw
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
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Hide pixels or patches as in training and let a masked run fill them in; keeps a PNG grid in its
    `samples` folder.

    Example: isopix reconstruct runs/photos-bert -n 8

    Parameters
    ----------
    run
        The run folder.
    """
    folder, loaded = RunFolder.open(run), network_of(run, device)
    reconstruction.require_masked(loaded.model)
    source, taken = split_to_draw(loaded, data, split, limit)
    images = first_images(source, taken, count).to(loaded.network.device)
    found = reconstruction.reconstruct(loaded.model, images, generator=generator(seed, "hide"))
    picture = pictures.reconstructions(found.cpu())
    numbers = {"kind": "reconstructions", "step": loaded.step, "seed": seed, "count": count}
    numbers |= {"data": data or loaded.recipe.data.source, "split": taken, "accuracy": found.accuracy}
    keep(folder, f"reconstructions-{loaded.step:08d}-seed{seed}", picture, numbers, json=json)
