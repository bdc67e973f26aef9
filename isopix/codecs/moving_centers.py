"""Nearest centers of many points while the centers move, as in k-means."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from isopix.codecs.nearest_color import (
    CELL_SIDE,
    CELLS_PER_AXIS,
    FIXED_POINT_SCALE,
    MAX_DISTANCES,
    FixedPoints,
    Pixels,
    fixed_point,
    nearest_centers,
)

Points = Float64[Tensor, "_ 3"]  # in levels of 0..255
Channels = Float64[Tensor, "3 n"]  # of fixed points
Codes = Int[Tensor, " n"]
Gaps = Float64[Tensor, " n"]  # how much farther all other centers are, at least
WIDTHS = (1, 8, 16)  # numbers of centers that a point is compared with; with all of them for more
POINTS = 2**17  # that are searched at a time, for the cache
MAX_PAIRS = 2**22  # of centers, whose distances are computed at a time
EXACT = "donot_use_mm_for_euclid_dist"  # distances from differences, without cancellation
MARGIN = 1.0  # 1/65536 of a level, far above the rounding of a distance


class MovingCenters:
    """The nearest center of each point, searched only where it can have changed, and where it can be.

    A center stays the nearest one while the gap between the distances to it and to the second nearest is
    larger than its own movement and the largest of any center together (Hamerly, 2010). A center that is
    nearer to a point than one at distance u lies within 2u of that one, and few do (Phillips, 2002). Of
    pixels, results are exactly those of `nearest_color.nearest_codes`.
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
        self.centers = new
        search = _Search(new)
        for part in torch.split((self.gaps <= MARGIN).nonzero()[:, 0], POINTS):
            self.codes[part], self.gaps[part] = search.nearest(self.points[:, part], self.codes[part])
        return self.codes


class _Neighborhood(NamedTuple):
    """Some centers near each, and the distance of the nearest of those that are left out."""

    near: Int[Tensor, "K width"]  # sorted, so that the first of equal distances is the lower index
    neighbors: Float64[Tensor, "K 3 width"]  # the same centers, whose rows are copied fast
    left_out: Float64[Tensor, " K"]


class _Search:
    """Searches the nearest centers of points, each near a center that is given for it."""

    def __init__(self, centers: FixedPoints):
        count = len(centers)
        self.by_channel = centers.T.contiguous()
        apart, near = _neighbors(centers, min(max(WIDTHS) + 1, count))
        self.neighborhoods = list[_Neighborhood]()
        for width in (each for each in WIDTHS if each < count):
            indices = near[:, :width].sort(1).values
            neighbors = centers[indices].mT.contiguous()
            self.neighborhoods.append(_Neighborhood(indices, neighbors, apart[:, width].contiguous()))
        every = torch.arange(count).expand(count, count)
        nothing = torch.full((count,), torch.inf, dtype=torch.float64)
        self.neighborhoods.append(_Neighborhood(every, self.by_channel.expand(count, 3, count), nothing))

    def nearest(self, points: Channels, codes: Codes) -> tuple[Codes, Gaps]:
        """Return the nearest centers, searched near those of these codes, and their gaps."""
        distances = (self.by_channel[:, codes] - points).square_().sum(0).sqrt_()
        reach = 2 * distances + MARGIN
        found, gaps = torch.empty_like(codes), torch.empty_like(distances)
        narrow = torch.zeros_like(codes)  # how many neighborhoods leave out a center within reach
        for each in self.neighborhoods:
            narrow += each.left_out[codes] <= reach
        for number, (near, neighbors, left_out) in enumerate(self.neighborhoods):
            which = (narrow == number).nonzero()[:, 0]
            for part in torch.split(which, max(1, MAX_DISTANCES // near.shape[1])):
                old = codes[part]
                scores = (neighbors[old] - points[:, part].T[:, :, None]).square_().sum(1)
                best, index = scores.min(1)
                second = scores.scatter_(1, index[:, None], torch.inf).amin(1).sqrt_()
                found[part] = near[old, index]
                gaps[part] = torch.minimum(second, left_out[old] - distances[part]) - best.sqrt_()
        return found, gaps


def _neighbors(centers: FixedPoints, count: int) -> tuple[Float64[Tensor, "K count"], Int[Tensor, "K count"]]:
    """Return the distances and indices of the centers closest to each, from itself on."""
    parts = torch.split(centers, max(1, MAX_PAIRS // len(centers)))
    found = [torch.cdist(part, centers, compute_mode=EXACT).topk(count, largest=False) for part in parts]
    return torch.cat([each.values for each in found]), torch.cat([each.indices for each in found])


def _nearest_to_cells(centers: FixedPoints, points: Channels) -> Codes:
    """Return the nearest center of the middle of each point's cell."""
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
