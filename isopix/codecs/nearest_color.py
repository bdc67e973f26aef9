"""Exact nearest colors of a palette, or of centers that move: by brute force, or as a table of all pixels.

Colors are integers in 1/65536 of a level (the spacing of float32 at 255). Squared distances are integers
below 2^53, exact in float64 in any order, on any device. Ties go to the lower index.
"""

from collections.abc import Sequence
from typing import NamedTuple

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

Points = Float64[Tensor, "_ 3"]  # in levels of 0..255
Channels = Float64[Tensor, "3 n"]  # of fixed points
Codes = Int[Tensor, " n"]
Gaps = Float64[Tensor, " n"]  # how much farther all other centers are, at least
WIDTHS = (1, 8, 16)  # numbers of centers that a point is compared with; with all of them for more
POINTS = 2**17  # that are searched at a time, for the cache
MAX_PAIRS = 2**22  # of centers, whose distances are computed at a time
EXACT = "donot_use_mm_for_euclid_dist"  # distances from differences, without cancellation
MARGIN = 1.0  # 1/65536 of a level, far above the rounding of a distance


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

    A color can be nearest to a pixel of a cell of the cube only if its smallest distance to the cell is not
    above any color's largest: about three of 512 colors remain.
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


class MovingCenters:
    """The nearest center of each point, searched only where it can have changed, and where it can be.

    It is kept while its lead over the second exceeds the movements of both (Hamerly, 2010), and searched
    among its neighbors (Phillips, 2002). Of pixels, results are exactly those of `nearest_codes`.
    """

    def __init__(self, points: Pixels | Points):
        self.points: Channels = points.T.double().contiguous() * FIXED_POINT_SCALE
        self.gaps: Gaps = torch.zeros(len(points), dtype=torch.float64)  # none is known
        self.codes: Codes = torch.zeros(len(points), dtype=torch.int64)
        self.centers: FixedPoints | None = None

    def nearest(self, centers: Float[Tensor, "K 3"]) -> Codes:
        """Return the index of the nearest center of each point, the lower one of equal distances."""
        new = fixed_point(centers.float()).double()
        if self.centers is None:
            self.codes = _nearest_to_cells(new, self.points)
        else:
            moved = (new - self.centers).square().sum(1).sqrt()
            self.gaps -= (moved + moved.max())[self.codes]
        self.centers, neighborhoods = new, _neighborhoods(new)
        for part in torch.split((self.gaps <= MARGIN).nonzero()[:, 0], POINTS):
            found = _search(new, neighborhoods, self.points[:, part], self.codes[part])
            self.codes[part], self.gaps[part] = found
        return self.codes


class _Neighborhood(NamedTuple):
    """Some centers near each, and the distance of the nearest of those that are left out."""

    near: Int[Tensor, "K width"]  # sorted, so that the first of equal distances is the lower index
    neighbors: Float64[Tensor, "K 3 width"]  # the same centers, whose rows are copied fast
    left_out: Float64[Tensor, " K"]


def _neighborhoods(centers: FixedPoints) -> list[_Neighborhood]:
    count, found = len(centers), list[_Neighborhood]()
    # In parts, for memory.
    parts = torch.split(centers, max(1, MAX_PAIRS // count))
    size = min(max(WIDTHS) + 1, count)
    closest = [torch.cdist(part, centers, compute_mode=EXACT).topk(size, largest=False) for part in parts]
    apart, near = torch.cat([each.values for each in closest]), torch.cat([each.indices for each in closest])
    for width in (each for each in WIDTHS if each < count):
        indices = near[:, :width].sort(1).values
        found.append(_Neighborhood(indices, centers[indices].mT.contiguous(), apart[:, width].contiguous()))
    every = torch.arange(count).expand(count, count)
    nothing = torch.full((count,), torch.inf, dtype=torch.float64)
    return [*found, _Neighborhood(every, centers.T.contiguous().expand(count, 3, count), nothing)]


def _search(
    centers: FixedPoints, neighborhoods: Sequence[_Neighborhood], points: Channels, codes: Codes
) -> tuple[Codes, Gaps]:
    distances = (centers.T.contiguous()[:, codes] - points).square_().sum(0).sqrt_()
    reach = 2 * distances + MARGIN
    found, gaps = torch.empty_like(codes), torch.empty_like(distances)
    narrow = torch.zeros_like(codes)  # how many neighborhoods leave out a center within reach
    for each in neighborhoods:
        narrow += each.left_out[codes] <= reach
    for number, (near, neighbors, left_out) in enumerate(neighborhoods):
        which = (narrow == number).nonzero()[:, 0]
        for part in torch.split(which, max(1, MAX_DISTANCES // near.shape[1])):
            old = codes[part]
            scores = (neighbors[old] - points[:, part].T[:, :, None]).square_().sum(1)
            best, index = scores.min(1)
            second = scores.scatter_(1, index[:, None], torch.inf).amin(1).sqrt_()
            found[part] = near[old, index]
            gaps[part] = torch.minimum(second, left_out[old] - distances[part]) - best.sqrt_()
    return found, gaps


def _nearest_to_cells(centers: FixedPoints, points: Channels) -> Codes:
    side = CELL_SIDE * FIXED_POINT_SCALE
    cells = torch.zeros(points.shape[1], dtype=torch.int64)
    for channel in points:
        cells = cells * CELLS_PER_AXIS + (channel / side).long()
    count = CELLS_PER_AXIS**3
    occupied = torch.bincount(cells, minlength=count).nonzero()[:, 0]
    middles = torch.stack(torch.unravel_index(occupied, (CELLS_PER_AXIS,) * 3), 1)
    nearest = torch.zeros(count, dtype=torch.int64)
    nearest[occupied] = nearest_centers(centers, (middles.double() + 0.5) * side)
    return nearest[cells]
