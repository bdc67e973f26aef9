"""Completion: sampling on a canvas whose first rows are given."""

from collections.abc import Callable

import torch

from isopix.core.types import Images
from isopix.generate.sample import Painted, Sampling, paint
from isopix.objectives.base import PretrainModel


def complete(
    model: PretrainModel,
    images: Images,
    *,
    rows: int,
    each: int = 1,
    sampling: Sampling,
    generator: torch.Generator,
    progress: Callable[[int], None] = lambda position: None,
) -> Painted:
    """`each` completions of every image from its first `rows` rows, next to one another: [B*each 3 H W].

    The paper gives half the rows. Raises ValueError if `rows` leaves nothing given or nothing to paint.
    """
    grid = model.network.codec.grid
    if not 0 < rows < grid.rows:
        raise ValueError(
            f"rows {rows} is not possible for an image of {grid.rows} rows; allowed: 1 to {grid.rows - 1}"
        )
    return paint(
        model,
        images,
        start=rows * grid.cols,
        each=each,
        sampling=sampling,
        generator=generator,
        progress=progress,
    )
