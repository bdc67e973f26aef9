"""Baselines that predict masked codes from the visible codes of the same image."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float
from scipy import fft
from scipy.ndimage import distance_transform_edt
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.model.heads import HeadSpec
from isopix.objectives.baselines import CodeMap, CodeValues, CountBaseline, MaskedCodes, PairBaseline, Unigram

DISTANCE_POWER, UNIGRAM_WEIGHT = 3, 0.1  # the best on training images of Flowers-5, in 2-bit gray levels
EPSILON = 1e-12  # a weight below the rounding of a convolution
FFT_COST = 40  # of a convolution, per point, in pairs of points


class NearestVisible(PairBaseline):
    """A code given the nearest visible one of its channel."""

    name = "nearest visible"

    def context(self, batch: MaskedCodes) -> CodeMap:
        return nearest_visible(batch.codes, batch.visible)


def nearest_visible(codes: CodeMap, visible: Bool[Tensor, "B _ R S"]) -> CodeMap:
    """Return the nearest visible code of the same image and channel; -1 where none is visible."""
    found = torch.full_like(codes, -1)
    for own, seen, nearest in zip(codes, visible, found, strict=True):
        equal = bool((seen == seen[0]).all())  # one search for all channels
        for channels, places in [(slice(None), seen[0])] if equal else enumerate(seen):
            if places.any():
                indices = distance_transform_edt(~places.numpy(), return_distances=False, return_indices=True)
                row, col = torch.from_numpy(indices).long()
                nearest[channels] = own[channels, row, col]
    return found


class VisibleHistogram(CountBaseline):
    """The channel's visible codes in an image, weighted by distance**-3, with a tenth of the unigram."""

    name = "visible histogram"

    def __init__(self, codec: Codec, head: HeadSpec):
        super().__init__(codec, head)
        self.unigram = Unigram(codec, head)

    def fit(self, batch: MaskedCodes) -> None:
        self.unigram.fit(batch)

    def probability(self, batch: MaskedCodes) -> CodeValues:
        values = np.unique(batch.codes[batch.visible].numpy())
        pairs = float(batch.in_loss.sum((2, 3)).double().mul(batch.visible.sum((2, 3))).sum())
        by_convolution = len(values) * FFT_COST * batch.codes.numel() < pairs
        own = _own_by_convolution(batch, values.tolist()) if by_convolution else _own_by_pairs(batch)
        return self._mixed(batch, own, self.unigram.probability(batch))

    def mean(self, batch: MaskedCodes) -> CodeValues:
        return self._mixed(batch, _weighted(batch.codes * batch.visible), self.unigram.mean(batch))

    def _mixed(self, batch: MaskedCodes, sums: CodeValues, unigram: CodeValues) -> CodeValues:
        total = _weighted(batch.visible)
        mixed = (1 - UNIGRAM_WEIGHT) * sums / total.clamp(min=EPSILON) + UNIGRAM_WEIGHT * unigram
        seen = rearrange(batch.visible, "b c r s -> b c (r s)").any(-1)[..., None, None]
        return torch.where(seen, mixed, unigram)


FROM_VISIBLE_CODES = (Unigram, NearestVisible, VisibleHistogram)


def _kernel(rows: int, cols: int) -> Float[Tensor, "_ _"]:
    """Return distance**-DISTANCE_POWER for all offsets in an image, 0 for none."""
    row, col = torch.arange(1 - rows, rows)[:, None], torch.arange(1 - cols, cols)
    squared = (row**2 + col**2).double()
    return torch.where(squared > 0, squared.clamp(min=1) ** (-DISTANCE_POWER / 2), 0.0)


def _weighted(values: Tensor) -> CodeValues:
    """Return at each point the sum of the values of all others, weighted by distance."""
    rows, cols = values.shape[2:]
    kernel = _kernel(rows, cols)
    # The valid part of a convolution, by scipy.fft: the import of scipy.signal takes half a second.
    size = [fft.next_fast_len(side, real=True) for side in kernel.shape]
    product = fft.rfft2(kernel.numpy(), size) * fft.rfft2(values.double().numpy(), size)
    summed = fft.irfft2(product, size)[..., rows - 1 : 2 * rows - 1, cols - 1 : 2 * cols - 1]
    return torch.from_numpy(summed).clamp(min=0)


def _own_by_convolution(batch: MaskedCodes, values: list[int]) -> CodeValues:
    """Return the weight of the visible codes equal to each code, by a convolution per value."""
    own = torch.zeros(batch.codes.shape, dtype=torch.float64)
    for value in values:
        equal = batch.codes == value
        own += equal * _weighted(equal & batch.visible)
    return own


def _own_by_pairs(batch: MaskedCodes) -> CodeValues:
    """Return the same by a sum over all pairs of a code in the loss and a visible one: 0 elsewhere."""
    rows, cols = batch.codes.shape[2:]
    kernel = _kernel(rows, cols)
    own = torch.zeros(batch.codes.shape, dtype=torch.float64)
    for image, channel in product(range(len(own)), range(own.shape[1])):
        codes = batch.codes[image, channel]
        masks = (batch.in_loss, batch.visible)
        (row, col), (seen_row, seen_col) = (mask[image, channel].nonzero().T for mask in masks)
        weights = kernel[row[:, None] - seen_row + rows - 1, col[:, None] - seen_col + cols - 1]
        equal = codes[row, col][:, None] == codes[seen_row, seen_col]
        own[image, channel, row, col] = (weights * equal).sum(1)
    return own


def exact_matches(batch: MaskedCodes, modes: Sequence[int]) -> dict[str, float]:
    """Return the fractions of codes in the loss that equal the nearest visible code, and the mode."""
    predictions = {"nearest visible": nearest_visible(batch.codes, batch.visible)}
    if modes:
        predictions["most frequent value"] = torch.tensor(modes)[:, None, None].expand_as(batch.codes)
    return {
        name: float((predicted == batch.codes)[batch.in_loss].float().mean())
        for name, predicted in predictions.items()
    }
