"""Exact nearest colors of a palette: by brute force for some pixels, or as a table of all 2^24 pixels.

Colors are integers in 1/65536 of a level (the spacing of float32 at 255). Then every squared distance is an
integer below 2^53, float64 holds it exactly, and the nearest color does not depend on the order of the sums,
the device or the number of threads. Ties go to the lower index.
"""

import torch
from jaxtyping import Bool, Float, Float64, Int, Int16, Int32, UInt8
from torch import Tensor

FixedPointColors = Int32[Tensor, "K 3"]
FixedPoints = Float64[Tensor, "_ 3"]  # in 1/65536 of a level
Pixels = UInt8[Tensor, "P 3"]
LookupTable = Int16[Tensor, " 16777216"]

FIXED_POINT_SCALE = 65536  # one level of 0..255
MAX_COLORS = 2**15  # indices that fit in int16
CELL_SIDE = 8  # levels along an edge of a cell of the color cube: the fastest of 4, 8 and 16
CELLS_PER_AXIS = 256 // CELL_SIDE
MAX_DISTANCES = 2**16  # distances computed at a time, also for the cache


def fixed_point(colors: Float[Tensor, "K 3"]) -> FixedPointColors:
    """Return colors in levels of 0..255 in 1/65536 of a level."""
    return (colors * FIXED_POINT_SCALE).round().int()  # exact in float32: a power of two, below 2^24


def nearest_codes(colors: FixedPointColors, pixels: Pixels) -> Int[Tensor, " P"]:
    """Return the index of the nearest color of each pixel, by comparing it with every color."""
    return nearest_centers(colors.double(), pixels.double() * FIXED_POINT_SCALE)


def nearest_centers(centers: FixedPoints, points: FixedPoints) -> Int[Tensor, " P"]:
    """Return the index of the nearest center of each point, by comparing it with every center."""
    lengths, towards = centers.square().sum(1), -2 * centers.T.contiguous()
    parts = torch.split(points, max(1, MAX_DISTANCES // len(centers)))
    scores = torch.empty(len(parts[0]), len(centers), dtype=torch.float64, device=centers.device)
    found = torch.empty(len(points), dtype=torch.int64, device=centers.device)
    for part, codes in zip(parts, torch.split(found, len(parts[0]) or 1), strict=True):
        # |x - c|^2 without |x|^2, which is the same for all; argmin returns the first of equal minima.
        torch.addmm(lengths, part, towards, out=scores[: len(part)])
        torch.argmin(scores[: len(part)], 1, out=codes)
    return found


def lookup_table(colors: FixedPointColors) -> LookupTable:
    """Return the nearest codes of all 2^24 pixels, at index red << 16 | green << 8 | blue.

    The cube is divided into cells. A color can be nearest to some pixel of a cell only if its smallest
    distance to the cell is not above any color's largest: on average about three of 512 colors remain.
    """
    points = colors.double()
    corners = torch.arange(0, 256, CELL_SIDE, dtype=torch.float64) * FIXED_POINT_SCALE
    smallest, largest = _bounds(points, corners)
    offsets = torch.cartesian_prod(*[torch.arange(CELL_SIDE, dtype=torch.float64) * FIXED_POINT_SCALE] * 3)
    # The score |c|^2 - 2 x.c of pixel x = corner + offset is the sum of a cell's part and a pixel's part.
    by_pixel = (-2 * points @ offsets.T).contiguous()
    codes = torch.empty(CELLS_PER_AXIS, CELLS_PER_AXIS**2, CELL_SIDE**3, dtype=torch.int16)
    for red in range(CELLS_PER_AXIS):
        nearest = smallest[red, 0] + smallest[:, None, 1] + smallest[None, :, 2]
        farthest = (largest[red, 0] + largest[:, None, 1] + largest[None, :, 2]).amin(-1, keepdim=True)
        corner = torch.cartesian_prod(corners[red : red + 1], corners, corners)
        by_cell = points.square().sum(1) - 2 * corner @ points.T
        _compare((nearest <= farthest).flatten(0, 1), by_cell, by_pixel, codes[red])
    blocks = codes.view(CELLS_PER_AXIS, CELLS_PER_AXIS, CELLS_PER_AXIS, CELL_SIDE, CELL_SIDE, CELL_SIDE)
    return torch.einsum("rgbxyz->rxgybz", blocks).flatten()


def _bounds(
    points: Float[Tensor, "K 3"], corners: Float[Tensor, " cells"]
) -> tuple[Float[Tensor, "cells 3 K"], Float[Tensor, "cells 3 K"]]:
    """Return squared distances, by axis, from every color to the nearest and farthest level of a cell."""
    first = corners[:, None, None]
    last = first + (CELL_SIDE - 1) * FIXED_POINT_SCALE
    outside = torch.maximum(first - points.T, points.T - last).clamp(min=0)
    across = torch.maximum((points.T - first).abs(), (last - points.T).abs())
    return outside.square(), across.square()


def _compare(
    candidates: Bool[Tensor, "cells K"],
    by_cell: Float[Tensor, "cells K"],
    by_pixel: Float[Tensor, "K P"],
    codes: Int16[Tensor, "cells P"],
) -> None:
    """Write the best of each cell's candidates into `codes`; NumPy, whose small calls cost less."""
    cells, pixels, written = by_cell.numpy(), by_pixel.numpy(), codes.numpy()
    for cell, possible in enumerate(candidates.numpy()):
        colors = possible.nonzero()[0]  # ascending, and argmin returns the first of equal minima
        written[cell] = colors[(pixels[colors] + cells[cell, colors, None]).argmin(0)]
