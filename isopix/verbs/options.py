"""The arguments that verbs share: one name for each, with its type and its help."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

from cyclopts import Parameter

from isopix.core import choices
from isopix.core.choices import Count as Positive
from isopix.data.formats import local_formats

if TYPE_CHECKING:
    from torch import device as Device

    from isopix.data.dataset import ImageDataset as Dataset
    from isopix.pretrained.model import PretrainedModel as Model
    from isopix.recipes.recipe import Recipe
else:  # the same without torch

    @runtime_checkable
    class Model(Protocol):
        """A model of `isopix.load`."""

        loaded: Any

    @runtime_checkable
    class Dataset(Protocol):
        """An `ImageDataset`."""

        train: Any
        validation: Any
        test: Any

    @runtime_checkable
    class Recipe(Protocol):
        """A `Recipe`."""

        model: Any
        objective: Any
        train: Any

    @runtime_checkable
    class Device(Protocol):
        """A `torch.device`."""

        type: str
        index: int | None


RunFolderLike = Annotated[str | os.PathLike[str], Parameter(help="Run folder.")]
DataLike = str | os.PathLike[str] | Dataset

RunLike = Annotated[
    str | os.PathLike[str] | Model, Parameter(help="Run folder, or a model that `isopix models` lists.")
]
DATASETS = f"{local_formats()}, or a name (digits, cifar10, ...)"
Data = Annotated[DataLike, Parameter(help=f"Dataset: {DATASETS}.")]
OtherImages = Annotated[DataLike | None, Parameter(help=f"Dataset instead of the run's own: {DATASETS}.")]
OtherLabeled = Annotated[
    DataLike | None, Parameter(help=f"Labeled dataset instead of the run's own: {DATASETS}.")
]
TrainingData = Annotated[str | os.PathLike[str] | None, Parameter(help=f"Dataset: {DATASETS}.")]
PaletteFile = Annotated[
    str | os.PathLike[str] | None,
    Parameter(help="Palette file. By default, a palette is fitted to the training images."),
]
RecipeLike = Annotated[str | Recipe, Parameter(help="Name from `isopix recipe list`.")]
SettingsFile = Annotated[
    Path | None,
    Parameter(help="Settings in a .yaml, .toml or .json file; command-line settings override it."),
]
RunSeed = Annotated[
    int | None,
    Parameter(
        help="Random seed of weights and batches (of splits: data.seed). Default: that of the recipe or run."
    ),
]
Logger = Annotated[
    tuple[str, ...],
    Parameter(negative="", help="Also log metrics to tensorboard, wandb or trackio; repeatable."),
]
Out = Annotated[Path, Parameter(help="Run folder to create; it must be new or empty.")]
Settings = Annotated[str, Parameter(help="Settings to override, as name=value.")]
Limit = Annotated[
    Positive | None, Parameter(help="Use only N random images of each split, equally many of each class.")
]
Split = Annotated[
    choices.SplitName | None,
    Parameter(help="Split of the dataset. Default: test, or all images of another unsplit dataset."),
]
Count = Annotated[Positive, Parameter(name=["--count", "-n"], help="Number of images.")]
Precision = Annotated[
    choices.Precision | None, Parameter(help="Precision of the forward pass. Default: that of the run.")
]
Seed = Annotated[int, Parameter(help="Random seed.")]
DeviceLike = Annotated[str | Device, Parameter(help="Device: cpu, cuda, cuda:0, mps, or auto.")]
