"""Setup: the scale and the data at which a protocol runs, and its networks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.load import saved_recipe
from isopix.runs.start import with_absolute_paths
from isopix.studies.papers.trials import Pretrain

T = TypeVar("T")
ProtocolScale = Literal["tiny", "small", "paper"]
SCALE_DATA = {"tiny": "translated-digits", "small": "cifar10"}  # where the protocol's own are too large
# How the images of a dataset are augmented in fine-tuning, where that is not the default of the recipe.
AUGMENT = {
    "imagenet-1k": ("data.augment=scale_crop",),
    "translated-digits": ("data.augment=none",),
    "digits": ("data.augment=none",),
}


@dataclass(frozen=True)
class Setup:
    """A scale, data in place of the protocol's, changed settings, and existing runs by their network."""

    scale: ProtocolScale = "tiny"
    data: str | None = None
    pretrain_data: str | None = None
    settings: tuple[str, ...] = ()
    pretrained: Mapping[str, str] = field(default_factory=dict)

    def choose(self, *, tiny: T, small: T, paper: T) -> T:
        return {"tiny": tiny, "small": small, "paper": paper}[self.scale]

    def datasets(self, *published: str) -> tuple[str, ...]:
        replaced = self.data or SCALE_DATA.get(self.scale)
        return (replaced,) if replaced else published

    def network(self, name: str, recipe: Recipe) -> Pretrain:
        """Return the network of this name, pre-trained by the recipe, or an existing run."""
        if name in self.pretrained:
            given = Path(self.pretrained[name])
            return Pretrain(name, saved_recipe(given), given)
        return Pretrain(name, self._resolved(recipe))

    def from_scratch(self, name: str, recipe: Recipe) -> Pretrain:
        return Pretrain(name, self._resolved(recipe), from_scratch=True)

    def probe_data(self, network: Pretrain, data: str) -> str | None:
        """Return None for the data of pre-training, so that its other settings apply too."""
        return None if network.recipe.data.source in (data, absolute(data)) else data

    def finetune_settings(self, data: str, *settings: str) -> tuple[str, ...]:
        return (f"data.source={json.dumps(data)}", "train.evaluators=[]", *AUGMENT.get(data, ()), *settings)

    def _resolved(self, recipe: Recipe) -> Recipe:
        source = self.pretrain_data or self.data or SCALE_DATA.get(self.scale)
        if self.scale == "paper":
            source = self.pretrain_data
        found = registry.resolve(recipe, options={"data.source": source}, settings=self.settings)
        return with_absolute_paths(found.recipe)


def slug(data: str) -> str:
    """Return the part of a run folder's name for a dataset by name or path."""
    return data.rstrip("/").rpartition("/")[2].replace(".", "-")


def absolute(data: str | Path | None) -> str | None:
    """Return the absolute path of data that are a file or folder, else their name."""
    return None if data is None else str(Path(data).resolve() if Path(data).exists() else data)


def existing_runs(words: Sequence[str]) -> dict[str, str]:
    """Return the absolute paths of `NAME=RUN` by name. Raises ValueError for a word without a name."""
    pairs = {name: path for name, _, path in (word.partition("=") for word in words)}
    if missing := next((word for word in words if "=" not in word), None):
        raise ValueError(f"pretrained is '{missing}'; write NAME=RUN, as in igpt-l=runs/igpt-l")
    return {name: str(Path(path).resolve()) for name, path in pairs.items()}
