"""The measurement record: the images, the labels and the choices that a number depends on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isopix.core import config
from isopix.core.choices import SplitName


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a loss or an accuracy was measured on. It is saved beside the number, as `measurement`.

    `images` of the `available` images of `split` (None: of those given) were used, without `left_out` copies
    of images that the model had seen. `images_hash` is of content and labels, `fitted_hash` of the
    `fitted_images` of a classifier of frozen features. `labels_seen` None is unknown. `selection` says what
    was chosen by which images; `warnings` what classes train lacks, and what is not known.
    """

    data: str
    split: SplitName | None
    images: int
    available: int
    images_hash: str
    left_out: int = 0
    fitted_images: int | None = None
    fitted_hash: str = ""
    classes: Mapping[str, int] = field(default_factory=dict)
    labels_seen: int | None = 0
    selection: str = ""
    seeds: Mapping[str, int | None] = field(default_factory=dict)
    baselines: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return config.to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Measurement":
        return config.from_dict(cls, values)

    @property
    def count(self) -> str:
        """The images: `2,000 of 10,000 test images of cifar10`, `60 images of photos (training split)`."""
        used = "" if self.images == self.available else f"{self.images:,} of "
        used += f"{self.available:,}"
        noun = "image" if self.available == 1 else "images"
        if self.split is None:
            return f"{used} given {noun}"
        if self.split == "train":
            return f"{used} {noun} of {self.data} (training split)"
        return f"{used} {self.split} {noun} of {self.data}"

    @property
    def line(self) -> str:
        """The record in one line: the images, the classes, what was selected, and the labels seen."""
        parts = [self.count]
        if self.left_out:
            parts.append(f"{self.left_out:,} copies of training or validation images are left out")
        if self.split is not None and self.split in self.classes:
            parts.append(f"{self.classes[self.split]:,} classes")
        if self.fitted_images is not None:
            parts.append(f"fitted to {self.fitted_images:,} training images")
        if self.selection:
            parts.append(self.selection)
        if self.labels_seen:
            parts.append(f"the network was trained on the labels of {self.labels_seen:,} different images")
        return "; ".join(parts)


@dataclass(frozen=True)
class EnsembleAccuracy:
    """Alternatives to the majority vote over masks: single masks in the mean, and mean probabilities."""

    single_mask: float
    mean_probability: float
