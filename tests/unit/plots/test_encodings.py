"""Every encoding has its picture on one scale, its name above and its two numbers below."""

import numpy as np

from isopix.analysis import similarity
from isopix.plots import encodings

SIX = {f"levels {count}": similarity.one_hot(count) for count in range(4, 10)}


def test_every_encoding_is_drawn_with_its_numbers() -> None:
    named = {"one-hot": similarity.one_hot(), "continuous": similarity.continuous()}
    one, other, scale = encodings.similarities(named).axes
    assert (one.get_title("left"), other.get_title("left")) == ("one-hot", "continuous")
    assert one.get_xlabel() == "distance kept 0.00\nrank 256"
    assert other.get_xlabel() == "distance kept 1.00\nrank 1"
    assert scale.get_ylabel() == "similarity"
    for axes, encoding in zip((one, other), named.values(), strict=True):
        assert np.array_equal(axes.images[0].get_array(), encoding.similarity)
        assert axes.images[0].get_clim() == (-1, 1)


def test_many_encodings_take_several_lines_and_leave_no_empty_frame() -> None:
    drawn = encodings.similarities(SIX)
    assert sum(bool(axes.images) for axes in drawn.axes) == 6
    empty = [axes for axes in drawn.axes[:8] if not axes.images]
    assert len(empty) == 2
    assert not any(axes.axison for axes in empty)
