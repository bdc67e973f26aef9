"""Every encoding has a panel on a common scale, with its name and its two statistics."""

import numpy as np

from isopix.analysis import similarity
from isopix.plots import embeddings

SIX = {f"levels {count}": similarity.one_hot_similarity(count) for count in range(4, 10)}


def test_every_encoding_is_plotted_with_its_statistics() -> None:
    encoded = {"one-hot": similarity.one_hot_similarity(), "continuous": similarity.continuous_similarity()}
    one, other, scale = embeddings.plot_level_similarity(encoded).axes
    assert (one.get_title("left"), other.get_title("left")) == ("one-hot", "continuous")
    assert one.get_xlabel() == "Level\nρ = 0.00\nrank 256"
    assert other.get_xlabel() == "Level\nρ = 1.00\nrank 1"
    assert scale.get_ylabel() == "Similarity"
    for axes, encoding in zip((one, other), encoded.values(), strict=True):
        assert np.array_equal(axes.images[0].get_array(), encoding.similarity)
        assert axes.images[0].get_clim() == (-1, 1)
        red, _, blue, _ = axes.images[0].cmap(1.0)
        assert blue > red, "similarity 1 is blue, as in the maps of positions"


def test_many_encodings_take_several_rows_without_empty_frames() -> None:
    figure = embeddings.plot_level_similarity(SIX)
    assert sum(bool(axes.images) for axes in figure.axes) == 6
    empty = [axes for axes in figure.axes[:8] if not axes.images]
    assert len(empty) == 2
    assert not any(axes.axison for axes in empty)
