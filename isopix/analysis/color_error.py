"""Colour errors of reconstructions: how much is wrong colours, and how much right colours in wrong places.

The distance of two lists of levels in their order is |a - b|, a mean over the list; that of their histograms
is the same after both are sorted (the Wasserstein distance), which no order of the answers can be below. What
lies between the two is misplaced.
"""

from typing import NamedTuple

import torch

from isopix.core.types import Images, Mask

WHITE = 255


class ColourError(NamedTuple):
    """Shares of the whole range of a channel, means over hidden sub-pixels, each image counting alike.

    `whole` is how far the answers are from the truth, `palette` how far the histograms of each channel's
    answers and truths are from each other.
    """

    whole: float
    palette: float

    @property
    def misplaced(self) -> float:
        """The share of the error that other places for the same levels would mend; 0 without any error."""
        return 1 - self.palette / self.whole if self.whole else 0.0


def colour_error(target: Images, hidden: Mask, answer: Images) -> ColourError:
    """Of reconstructions whose positions are pixels; hidden of any channel counts as hidden. Images of which
    nothing is hidden are left out; raises ValueError if all are such.
    """
    wholes, palettes = [], []
    for truth, unseen, named in zip(target.flatten(2), hidden.any(-1), answer.flatten(2), strict=True):
        if unseen.any():
            true, given = truth[:, unseen].float() / WHITE, named[:, unseen].float() / WHITE
            wholes.append((true - given).abs().mean())
            palettes.append((true.sort(1).values - given.sort(1).values).abs().mean())
    if not wholes:
        raise ValueError("nothing is hidden of these images; there is no error to tell")
    return ColourError(float(torch.stack(wholes).mean()), float(torch.stack(palettes).mean()))
