"""What `sample`, `complete` and `reconstruct` share: a network, images for it, and a picture kept with its
numbers.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from isopix.cli.console import say, show_json
from isopix.core import device as devices
from isopix.core.types import Images
from isopix.data.images import ImageSet
from isopix.data.images import load as load_images
from isopix.recipes.load import Loaded, load
from isopix.train.disk import write_json
from isopix.train.run_folder import RunFolder

Count = Annotated[int, Parameter(name=["--count", "-n"], help="how many images")]
Temperature = Annotated[float, Parameter(help="1 draws from the model as it is; less is more cautious")]
TopK = Annotated[int | None, Parameter(help="draw from the k likeliest colours alone")]
TopP = Annotated[float | None, Parameter(help="draw from the fewest colours that reach this probability")]
SplitName = Literal["train", "validation", "test"]


def network_of(run: Path, device: str) -> Loaded:
    """The newest intact network of a run; damaged checkpoints that were passed over are named."""
    loaded = load(run, device=devices.pick(device))
    for reason in loaded.passed_over:
        say(f"passed over: {reason}")
    loaded.network.eval()
    return loaded


def images_for(loaded: Loaded, source: str | None, limit: int | None = None) -> ImageSet:
    """Images of another source, or of the run's own, at the resolution of the network."""
    settings = loaded.recipe.data
    settings = replace(settings, source=source or settings.source, limit=limit)
    return load_images(settings, seed=loaded.recipe.seed)


def first_images(data: ImageSet, split: SplitName, count: int) -> Images:
    """The first images of a split. Raises ValueError if there are not as many."""
    images = {"train": data.train, "validation": data.validation, "test": data.test}[split].images
    if not 1 <= count <= len(images):
        raise ValueError(f"{count} images asked for; {data.name} has {len(images)} in its {split} split")
    return images[:count]


def keep(run: Path, name: str, picture: Any, numbers: Mapping[str, Any], *, json: bool) -> Path:
    """Save a picture and its numbers as `samples/<name>.png` and `.json`, and say where."""
    folder = RunFolder.open(run).samples
    path = folder / f"{name}.png"
    folder.mkdir(exist_ok=True)
    picture.save(path)
    values = {**numbers, "picture": str(path), "command": ["isopix", *sys.argv[1:]]}
    write_json(path.with_suffix(".json"), values)
    if json:
        show_json(values)
    else:
        say(f"wrote {path}")
    return path
