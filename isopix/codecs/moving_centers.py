"""Nearest centers of many points while the centers move, as in k-means."""

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from isopix.codecs.nearest_color import FIXED_POINT_SCALE, MAX_DISTANCES, Pixels, fixed_point

Points = Float64[Tensor, "_ 3"]  # in levels of 0..255
FixedPoints = Float64[Tensor, "_ 3"]  # in 1/65536 of a level
MIN_GAP = 1.0  # 1/65536 of a level, far above the rounding of a distance


class MovingCenters:
    """The nearest center of each point, recomputed only where it can have changed (Hamerly, 2010).

    A center stays the nearest one while the gap between the distances to it and to the second nearest is
    larger than its own movement and the largest of any center together. All points are compared at first, and
    later those whose gap has closed. Of pixels, results are exactly those of `nearest_color.nearest_codes`.
    """

    def __init__(self, points: Pixels | Points):
        self.points: FixedPoints = points.double() * FIXED_POINT_SCALE
        self.codes = torch.zeros(len(points), dtype=torch.int64)
        self.gaps = torch.zeros(len(points), dtype=torch.float64)  # none is known
        self.centers: FixedPoints | None = None

    def nearest(self, centers: Float[Tensor, "K 3"]) -> Int[Tensor, " n"]:
        """Return the index of the nearest center of each point, the lower one of equal distances."""
        new = fixed_point(centers.float()).double()
        if self.centers is not None:
            moved = (new - self.centers).square().sum(1).sqrt()
            self.gaps -= moved[self.codes] + moved.max()
        self.centers = new
        changed = (self.gaps <= MIN_GAP).nonzero()[:, 0]
        lengths, towards = new.square().sum(1), -2 * new.T.contiguous()
        for part in torch.split(changed, max(1, MAX_DISTANCES // len(new))):
            points = self.points[part]
            scores = torch.addmm(lengths, points, towards)  # squared distances without those of the points
            best, codes = scores.min(1)
            second = scores.scatter_(1, codes[:, None], torch.inf).amin(1)
            offset = points.square().sum(1)
            self.codes[part] = codes
            self.gaps[part] = (second + offset).sqrt() - (best + offset).clamp(min=0).sqrt()
        return self.codes
