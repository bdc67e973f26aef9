"""A run as the page uses it: its model, its test images, what it can do, and what is hidden of an image."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, UInt8
from numpy.typing import NDArray

from isopix.analysis.attention_analyses import AttentionMaps
from isopix.analysis.scores import require_scores
from isopix.core.device import DeviceLike
from isopix.core.files import read_regular
from isopix.core.types import AnyNumber, Images
from isopix.data.decode import MAX_PIXELS, opened_image
from isopix.generate.mask import MaskLike
from isopix.pretrained.images import DataLike, select_split
from isopix.pretrained.model import PretrainedModel
from isopix.pretrained.run import load, run_folder
from isopix.probing.features import extract_features
from isopix.probing.splits import Features
from isopix.runs.load import LoadedRun

PAINTED = "What I paint"
SHAPES = {
    PAINTED: "",
    "Lower half": "half",
    "Right half": "rectangle:0.0,0.5,1.0,0.5",
    "Middle": "rectangle",
    "Random 75%": "random:0.75",
}
MAX_IMAGES = 256  # test images that are shown and searched for neighbors

Ability = Literal["complete", "attention", "surprise"]
Pixels = UInt8[np.ndarray, "H W 3"]


class ChosenImage(NamedTuple):
    """An image of a user: bytes of a file, or pixels, and its place among the test images, if any."""

    content: bytes | NDArray[np.uint8]
    test_index: int | None = None


@dataclass(eq=False)
class OpenedRun:
    """A run with its first test images, [B 3 H W]; `note` says why there are none, else which they are."""

    name: str
    model: PretrainedModel
    images: Images
    note: str
    labels: tuple[str | None, ...] = ()

    @property
    def loaded(self) -> LoadedRun:
        return self.model.loaded

    @property
    def size(self) -> tuple[int, int]:
        return self.model.network.codec.image_size

    @cached_property
    def features(self) -> Features:
        """The features of all layers of the test images, [L+1 B D]; computed once."""
        return extract_features(self.model.network, self.images)

    def label(self) -> str:
        rows, cols = self.size
        recipe = self.loaded.recipe
        return (
            f"{recipe.name}, {recipe.objective.label()}, {rows} x {cols} pixels, {self.model.depth} blocks "
            f"of width {recipe.model.width}, step {self.loaded.step:,}"
        )

    def problem(self, ability: Ability) -> str:
        """Return in a line why the model cannot do something; empty if it can."""
        try:
            if ability == "complete":
                self.model.require("complete")
            elif ability == "attention":
                return AttentionMaps().not_applicable_reason(self.model.network) or ""
            else:
                require_scores(self.loaded.model)
                self.loaded.require_decoder(ability)
        except ValueError as error:
            return str(error)
        return ""


def open_runs(
    runs: Sequence[str | os.PathLike[str]], *, data: DataLike | None, device: DeviceLike
) -> list[OpenedRun]:
    """Open run folders and read their test images, if they can be read, or those of `data`."""
    paths = [run_folder(run).path for run in runs]
    short = [path.resolve().name for path in paths]
    names = short if len(set(short)) == len(short) else [f"{i}: {path}" for i, path in enumerate(paths, 1)]
    return [_open(name, path, data, device) for name, path in zip(names, paths, strict=True)]


def pixels_of(images: Images) -> Pixels:
    """Return the first of the images as [H W 3]."""
    return np.ascontiguousarray(images[0].permute(1, 2, 0).cpu().numpy())


def _open(name: str, path: Path, data: DataLike | None, device: DeviceLike) -> OpenedRun:
    model = load(path, device=device)
    none = torch.zeros(0, 3, *model.network.codec.image_size, dtype=torch.uint8)
    try:
        dataset, split = select_split(model.loaded, data, None, None)
    except (ValueError, OSError, RuntimeError) as error:
        if data is not None:
            raise
        return OpenedRun(name, model, none, f"the run's own images cannot be read: {error}")
    chosen = getattr(dataset, split)
    found: AnyNumber = chosen.images
    if not len(found):
        return OpenedRun(name, model, none, f"{dataset.name} has no {split} images")
    images = found[:MAX_IMAGES].cpu()
    note = f"first {len(images):,} of {len(found):,} {split} images of {dataset.name}"
    return OpenedRun(name, model, images, note, tuple(dataset.labels_of(chosen)[:MAX_IMAGES]))


def image_of(run: OpenedRun, chosen: ChosenImage | None) -> Images:
    """Return the chosen image [1 3 H W] as one of the run's dataset. Raises ValueError for none."""
    if chosen is None:
        raise ValueError("choose or drop an image first")
    return run.model.preprocess([chosen.content])


def hidden_part(shape: str, layers: Sequence[Path]) -> MaskLike:
    """Return the mask of a shape, or bool [H W] of where a layer, enlarged, is not transparent.

    Raises ValueError for an empty canvas, and for layers of more than MAX_PIXELS together.
    """
    if shape != PAINTED:
        return SHAPES[shape]
    painted = painted_part(layers)
    if not painted.any():
        raise ValueError("nothing is painted yet: paint over a part of the image, or choose a shape to hide")
    return painted


def painted_part(layers: Sequence[Path]) -> Bool[np.ndarray, "H W"]:
    """Return where a layer is not transparent. Raises ValueError for more than MAX_PIXELS in all layers."""
    painted, left = np.zeros((1, 1), bool), MAX_PIXELS
    for layer in layers:
        with opened_image(read_regular(layer), left) as image:
            painted = painted | (np.asarray(image.convert("RGBA"))[..., 3] > 0)
            left -= painted.size
    return painted
