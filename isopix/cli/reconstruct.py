"""`isopix reconstruct`: predict masked pixels or patches from the visible ones."""

from pathlib import Path

from isopix.api import generation
from isopix.cli.console import (
    Device,
    FirstImages,
    Json,
    Limit,
    OtherImages,
    Plugins,
    Seed,
    Split,
    load_plugins,
    say,
    show_saved,
)


def reconstruct(
    run: Path,
    *,
    data: OtherImages = None,
    split: Split = None,
    count: FirstImages = None,
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
        Run folder, or a model that `isopix models` lists.
    """
    load_plugins(plugin)
    found = generation.reconstruct(
        run, data=data, split=split, count=count, limit=limit, seed=seed, device=device
    )
    if not json:
        rates = {"exact matches": found.accuracy, **found.reconstruction.baselines}
        shown = ", ".join(f"{name} {rate:.1%}" for name, rate in rates.items())
        say(f"{shown}, on {found.measurement.count}")
    show_saved(found.record, found.path, json=json)
