"""`isopix pretrain`: a recipe and images become a run folder."""

from pathlib import Path

from isopix.cli.console import Device, Json, Limit, say
from isopix.cli.training import Again, conclude, going_on, watching
from isopix.core import device as devices
from isopix.core.shell import command
from isopix.recipes import catalogue
from isopix.runs.run import start


def pretrain(
    recipe: str,
    *settings: str,
    out: Path,
    data: str | None = None,
    palette: Path | None = None,
    file: Path | None = None,
    limit: Limit = None,
    seed: int | None = None,
    probe_every: int | None = None,
    device: Device = "auto",
    tensorboard: bool = False,
    json: Json = False,
    again: Again = None,
) -> None:
    """Pre-train a recipe on images; makes a run folder.

    Ctrl-C saves and says how to go on. What the run folder holds then is enough for every other verb.

    Example: isopix pretrain igpt.tiny --data photos/ --out runs/photos steps=300 batch=32

    Parameters
    ----------
    recipe
        A name from `isopix recipe list`.
    settings
        Changes, as path=value; `isopix recipe show` lists the paths.
    out
        The run folder; it must be new or empty.
    data
        A folder of images, an .npz file, a Parquet file or folder, or a name (digits, cifar10, ...).
    palette
        A palette file; without one, colours are fitted to the training images.
    file
        Changes in a .yaml, .toml or .json file; words on the command line win over it.
    seed
        Seed of everything that is drawn by chance; the recipe's without it.
    probe_every
        Also probe the network every so many steps, on a few labelled images; changes nothing else.
    tensorboard
        Also write TensorBoard files, into the run folder.
    """
    options = {
        "data.source": data,
        "data.limit": limit,
        "codec.source": None if palette is None else str(palette),
        "seed": seed,
        "probe_every": probe_every,
    }
    settled = catalogue.resolve(recipe, file=file, options=options, assignments=settings).recipe
    where = devices.pick(device)
    work = f"{settled.data.source}, {settled.steps} steps of {settled.batch}"
    if not json:
        say(f"{settled.name} on {work}, {devices.describe(where)}")
    again = again or command("resume", out)
    with going_on(out, again), watching(settled, where, tensorboard=tensorboard, json=json) as watch:
        outcome = start(settled, out, device=where, watch=watch)
    conclude(settled, outcome, again, json=json)
