"""The arguments that verbs share: one name for each, with its type and its help."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

from cyclopts import Parameter
from pydantic import BeforeValidator

from isopix.core import choices
from isopix.core.choices import Count as Positive
from isopix.data.formats import local_formats

if TYPE_CHECKING:
    from torch import device as Device

    from isopix.pretrained.model import PretrainedModel as Model
    from isopix.recipes.recipe import Recipe
else:  # the same without torch: what has these attributes

    @runtime_checkable
    class Model(Protocol):
        loaded: Any

    @runtime_checkable
    class Recipe(Protocol):
        model: Any
        objective: Any
        train: Any

    @runtime_checkable
    class Device(Protocol):
        type: str
        index: int | None


def _stored(given: Any) -> Any:
    """Return images in memory as the path of a file of the cache, and any other value as it is."""
    if given is None or isinstance(given, str | os.PathLike):
        return given
    from isopix.data.sources.memory import store_images

    return store_images(given)


Stored = BeforeValidator(_stored)
PathLike = str | os.PathLike[str]
RunFolderLike = Annotated[PathLike, "Run folder."]

RunOrModel = PathLike | Model
RunLike = Annotated[RunOrModel, "Run folder, or a model from `isopix list models`."]
DATASETS = f"{local_formats()}, or a name (digits, cifar10, ...)"
OtherImages = Annotated[PathLike | None, Stored, f"Dataset instead of the run's own: {DATASETS}."]
OtherLabeled = Annotated[PathLike | None, Stored, f"Labeled dataset instead of the run's own: {DATASETS}."]
TrainingData = Annotated[PathLike | None, Stored, f"Dataset: {DATASETS}."]
PaletteFile = Annotated[
    PathLike | None, "Palette file, or .npy array of colors. By default, fitted to the training images."
]
RecipeLike = Annotated[str | Recipe, "Name from `isopix list recipes`."]
SettingsFile = Annotated[
    Path | None,
    "Settings in a .yaml file, or mae.finetuning or vit.finetuning; command-line settings override them.",
]
RunSeed = Annotated[
    int | None,
    "Random seed of weights and batches (data.seed: of splits). Default: the seed of the recipe or run.",
]
Logger = Annotated[tuple[str, ...], "Also log metrics to tensorboard or wandb; repeatable."]
Out = Annotated[Path, "Run folder: new, empty, or created by the same command, which then resumes the run."]
DataSettings = Annotated[str, "Settings of the data, such as splits=none or white=4095."]
Settings = Annotated[str, "Settings to override, as name=value."]
Limit = Annotated[Positive | None, "Use only N random images of each split, equally many of each class."]
Split = Annotated[
    choices.SplitName | None,
    "Split of the dataset. Default: test, or all images if another dataset has no splits.",
]
Count = Annotated[Positive, Parameter(name=["--count", "-n"]), "Number of images."]
Precision = Annotated[choices.Precision | None, "Precision of the forward pass. Default: as in the run."]
FullPrecision = Annotated[choices.Precision, "Precision of the forward pass."]
Seed = Annotated[int, "Random seed."]
DeviceLike = Annotated[str | Device, "Device: cpu, cuda, cuda:0, mps, or auto."]
