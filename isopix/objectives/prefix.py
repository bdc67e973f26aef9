"""Next-patch prediction after a random prefix, to which all positions attend."""

from typing import ClassVar

import torch

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Grid, Images
from isopix.model.decoder import PrefixMaskingSpec
from isopix.objectives.base import ObjectiveSpec, TrainingBatch


@register("prefix", "next patch after a prefix")
class Prefix(ObjectiveSpec):
    """The codes of each position after a prefix, from all before it (AIM, El-Nouby et al. 2024).

    The length of the prefix is uniform between 1 and N - 1 for each image. Features are bidirectional.
    """

    predicts_next: ClassVar[bool] = True

    corruption: PrefixMaskingSpec = PrefixMaskingSpec()
    """What a position attends to, and the head's MLPs."""

    def check_grid(self, grid: Grid) -> None:
        if grid.positions < 2:
            raise ValueError(f"objective=prefix needs two positions or more, not {grid.positions}")

    def decoded_fraction(self, positions: int, num_codes: int) -> float:
        return 0.5

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        """Return a batch whose targets are the codes of the next position; the mask is after the prefix."""
        count, positions = len(images), torch.arange(codec.grid.positions)
        prefix = torch.randint(1, codec.grid.positions, (count, 1), generator=generator)
        after = (positions >= prefix)[..., None].to(images.device)
        in_loss = after.roll(-1, 1)  # the last of the prefix predicts the first code after it
        in_loss[:, -1] = False
        return TrainingBatch.with_equal_weights(images, after, codec.encode(images).roll(-1, 1), in_loss)
