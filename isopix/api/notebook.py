"""Notebooks: grids of images, results as pictures and tables below a cell."""

import importlib
import sys
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import torch
from einops import rearrange
from PIL import Image

from isopix.api.arguments import checked
from isopix.core.ranges import Count
from isopix.core.text import printable
from isopix.display.tables import format_table
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


class ResultTable(NamedTuple):
    """A table of results with what it shows."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    def html(self) -> str:
        """Return it as HTML; all values are escaped."""
        head = "".join(f"<th>{escape(each)}</th>" for each in self.columns)
        cells = ("".join(f"<td>{escape(str(each))}</td>" for each in row) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        rest = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return f"<table><caption>{escape(self.caption)}</caption>{rest}</table>"

    def text(self) -> str:
        """Return it as lines of text."""
        columns = [printable(each) for each in self.columns]
        rows = [[printable(str(each)) for each in row] for row in self.rows]
        table = format_table(columns, rows, None)
        return "\n".join([printable(self.caption), *table.header, *table.body])


class TableOutput:
    """A result that is shown as a table: below the cell of a notebook whose last value it is, and printed."""

    def table(self) -> ResultTable:
        """Return the table."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()
