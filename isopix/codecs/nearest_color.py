"""The nearest colour of a palette, exactly: for given pixels by trying every colour, or for all 2^24 at once.

Colours are whole numbers of 1/65536 of a level (a float32's own step at 255). Then every squared distance is
a whole number below 2^53, float64 holds it without rounding, and the nearest colour is the same one whatever
the order of the sums, the device or the number of threads. Of equally near colours the lower index wins.
"""

import torch
from jaxtyping import Float, Int, Int16, Int32, UInt8
from torch import Tensor

Fixed = Int32[Tensor, "K 3"]
Pixels = UInt8[Tensor, "P 3"]
Table = Int16[Tensor, " 16777216"]

ONE = 65536  # one level of 0..255
MOST = 2**15  # colours that an int16 table can name
SIDE = 8  # levels along an edge of one cell of the colour cube: the fastest of 4, 8 and 16
CELLS = 256 // SIDE
TOGETHER = 256  # cells compared at a time, so that their scores stay in the cache
AT_ONCE = 2**16  # distances that `search` holds at a time, again for the cache


def search(colours: Fixed, pixels: Pixels) -> Int[Tensor, " P"]:
    """The index of the colour nearest to each pixel, by comparing it with every colour."""
    points = colours.double()
    lengths, towards = points.square().sum(1), -2 * points.T.contiguous()
    parts = torch.split(pixels.double() * ONE, max(1, AT_ONCE // len(colours)))
    scores = torch.empty(len(parts[0]), len(colours), dtype=torch.float64, device=colours.device)
    found = torch.empty(len(pixels), dtype=torch.int64, device=colours.device)
    for part, codes in zip(parts, torch.split(found, len(parts[0]) or 1), strict=True):
        # |x - c|^2 less the |x|^2 that all colours share; argmin returns the first of equal minima.
        torch.addmm(lengths, part, towards, out=scores[: len(part)])
        torch.argmin(scores[: len(part)], 1, out=codes)
    return found


def table(colours: Fixed) -> Table:
    """`search` of all 2^24 pixels, at red << 16 | green << 8 | blue.

    The cube is cut into cells. A colour can be nearest to some pixel of a cell only if its least distance to
    the cell is no larger than any colour's greatest: about three of 512 colours are left to compare.
    """
    points = colours.double()
    corners = torch.arange(0, 256, SIDE, dtype=torch.float64) * ONE
    least, greatest = _bounds(points, corners)
    offsets = torch.cartesian_prod(*[torch.arange(SIDE, dtype=torch.float64) * ONE] * 3)
    # The score |c|^2 - 2 x.c of pixel x = corner + offset is the sum of a cell's part and a pixel's part.
    by_pixel = (-2 * points @ offsets.T).contiguous()
    codes = torch.empty(CELLS, CELLS**2, SIDE**3, dtype=torch.int16)
    for red in range(CELLS):
        nearest = least[red, 0] + least[:, None, 1] + least[None, :, 2]
        farthest = (greatest[red, 0] + greatest[:, None, 1] + greatest[None, :, 2]).amin(-1, keepdim=True)
        corner = torch.cartesian_prod(corners[red : red + 1], corners, corners)
        by_cell = points.square().sum(1) - 2 * corner @ points.T
        _compare((nearest <= farthest).flatten(0, 1), by_cell, by_pixel, codes[red])
    blocks = codes.view(CELLS, CELLS, CELLS, SIDE, SIDE, SIDE)
    return torch.einsum("rgbxyz->rxgybz", blocks).flatten()


def _bounds(
    points: Float[Tensor, "K 3"], corners: Float[Tensor, " cells"]
) -> tuple[Float[Tensor, "cells 3 K"], Float[Tensor, "cells 3 K"]]:
    """Squared distances along each axis from every colour to the nearest and farthest level of each cell."""
    first = corners[:, None, None]
    last = first + (SIDE - 1) * ONE
    outside = torch.maximum(first - points.T, points.T - last).clamp(min=0)
    across = torch.maximum((points.T - first).abs(), (last - points.T).abs())
    return outside.square(), across.square()


def _compare(
    possible: Tensor,
    by_cell: Float[Tensor, "cells K"],
    by_pixel: Float[Tensor, "K P"],
    codes: Int16[Tensor, "cells P"],
) -> None:
    """Write into `codes` the best of each cell's possible colours; cells with equally many go together."""
    counts = possible.sum(1)
    colours = possible.nonzero()[:, 1]  # ascending within a cell, so a later one must be nearer to win
    starts = counts.cumsum(0) - counts
    order = counts.argsort(descending=True)
    for cells in torch.split(order, TOGETHER):
        colour = colours[starts[cells]]
        best = by_pixel[colour] + by_cell[cells, colour, None]
        chosen = colour.short()[:, None].repeat(1, best.shape[1])
        for turn in range(1, int(counts[cells[0]])):
            open_ = int((counts[cells] > turn).sum())
            colour = colours[starts[cells[:open_]] + turn]
            score = by_pixel[colour] + by_cell[cells[:open_], colour, None]
            nearer = score < best[:open_]
            best[:open_] = torch.minimum(score, best[:open_])
            chosen[:open_] = torch.where(nearer, colour.short()[:, None], chosen[:open_])
        codes[cells] = chosen
