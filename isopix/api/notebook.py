"""Notebooks: grids of images, results as pictures and tables below a cell."""

import importlib
import sys

import torch
from einops import rearrange
from PIL import Image

from isopix.api.arguments import checked
from isopix.core.choices import Count
from isopix.core.table import Table
from isopix.plots.images import sample_grid
from isopix.pretrained.inputs import ArrayLike


@checked
def make_grid(
    images: ArrayLike,
    columns: Count | None = None,
    *,
    scale: Count | None = None,
) -> Image.Image:
    """Return uint8 images [B 3 H W] in reading order as one picture, each pixel `scale` pixels wide; of
    completions [B each 3 H W] by default a row for each image. A notebook shows it below the cell.

    Raises ValueError for no images, and for other shapes.
    """
    images = torch.as_tensor(images)
    if images.dtype != torch.uint8 or images.ndim not in (4, 5) or images.shape[-3] != 3:
        given = f"{images.dtype} of shape {list(images.shape)}"
        raise ValueError(f"expected uint8 images [B 3 H W] or [B each 3 H W], got {given}")
    if images.ndim == 5:
        columns = columns or images.shape[1]
        images = rearrange(images, "b each c h w -> (b each) c h w")
    return sample_grid(images.cpu(), columns=columns, scale=scale)


def display(picture: Image.Image) -> None:
    """Show a picture below the cell of a notebook, or in the system's viewer where there is none."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        importlib.import_module("IPython.display").display(picture)
    else:
        picture.show()


class TableOutput:
    """A result that is shown as a table: below the cell of a notebook whose last value it is, and printed."""

    def table(self) -> Table:
        """Return the table."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()
