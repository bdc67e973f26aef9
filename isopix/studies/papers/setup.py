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
    """A scale, the labeled data instead of the protocol's, the data of pre-training if others, changed
    settings of pre-training, and existing runs by the name of the network that they replace.
    """

    scale: ProtocolScale = "tiny"
    data: str | None = None
    pretrain_data: str | None = None
    settings: tuple[str, ...] = ()
    pretrained: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        scale: ProtocolScale,
        data: str | Path | None,
        pretrain_data: str | Path | None,
        settings: Sequence[str],
        pretrained: Sequence[str],
    ) -> "Setup":
        """Return the setup of a command, with absolute paths. Raises ValueError for `pretrained` without a
        name.
        """
        runs = dict[str, str]()
        for word in pretrained:
            name, equals, path = word.partition("=")
            if not equals:
                raise ValueError(f"pretrained is '{word}'; write NAME=RUN, as in igpt-l=runs/igpt-l")
            runs[name] = str(Path(path).resolve())
        return cls(scale, _absolute(data), _absolute(pretrain_data), tuple(settings), runs)

    def choose(self, *, tiny: T, small: T, paper: T) -> T:
        """Return the one of this scale."""
        return {"tiny": tiny, "small": small, "paper": paper}[self.scale]

    def datasets(self, *published: str) -> tuple[str, ...]:
        """Return the labeled datasets: those of the paper, or the one instead of them."""
        replaced = self.data or SCALE_DATA.get(self.scale)
        return (replaced,) if replaced else published

    def network(self, name: str, recipe: Recipe) -> Pretrain:
        """Return the network of this name, pre-trained by the recipe, or an existing run.

        Raises ValueError for wrong settings and for a run that cannot be read.
        """
        if name in self.pretrained:
            given = Path(self.pretrained[name])
            return Pretrain(name, saved_recipe(given), given)
        return Pretrain(name, self._resolved(recipe))

    def from_scratch(self, name: str, recipe: Recipe) -> Pretrain:
        """Return the untrained network of a recipe."""
        return Pretrain(name, self._resolved(recipe), from_scratch=True)

    def probe_data(self, network: Pretrain, data: str) -> str | None:
        """Return None for the data of pre-training, so that its other settings apply too."""
        return None if data == network.recipe.data.source or _same_file(data, network) else data

    def finetune_settings(self, data: str, *settings: str) -> tuple[str, ...]:
        """Return the settings of fine-tuning on a dataset."""
        return (f"data.source={json.dumps(data)}", "train.evaluators=[]", *AUGMENT.get(data, ()), *settings)

    def _resolved(self, recipe: Recipe) -> Recipe:
        source = self.pretrain_data or self.data or SCALE_DATA.get(self.scale)
        if self.scale == "paper":
            source = self.pretrain_data
        options = {"data.source": source}
        resolved = registry.resolve(recipe, options=options, assignments=self.settings).recipe
        return with_absolute_paths(resolved)


def _same_file(data: str, network: Pretrain) -> bool:
    return Path(data).exists() and str(Path(data).resolve()) == network.recipe.data.source


def slug(data: str) -> str:
    """Return the part of a run folder's name for a dataset by name or path."""
    return data.rstrip("/").rpartition("/")[2].replace(".", "-")


def _absolute(data: str | Path | None) -> str | None:
    if data is None:
        return None
    return str(Path(data).resolve() if Path(data).exists() else data)
