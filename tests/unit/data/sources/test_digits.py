"""scikit-learn's digits."""

import numpy as np

from isopix.data.sources.read_source import read_digits


def test_digits_have_seventeen_gray_levels() -> None:
    source = read_digits()
    pixels = np.stack([np.asarray(image) for image in source.splits["train"].images()])
    assert pixels.shape == (1797, 8, 8)
    assert np.unique(pixels).tolist() == [round(v * 255 / 16) for v in range(17)]
    assert source.classes == tuple("0123456789")
