"""Every network is one point in every panel, at its loss and accuracy; lines hold every layer; bars are
deviations, and are left out where nothing was repeated.
"""

from itertools import chain

import pytest
from matplotlib.container import ErrorbarContainer

from isopix.plots import study
from tests.unit.plots import cases


def marked(axes) -> dict[str, list[tuple[float, float]]]:
    """What is drawn under each name of the legend."""
    return {
        each.get_label(): [tuple(map(float, point)) for point in each.lines[0].get_xydata()]
        for each in axes.containers
        if isinstance(each, ErrorbarContainer)
    }


def test_both_panels_show_every_network_once() -> None:
    groups = cases.study()
    left, right = study.against_loss(groups).axes
    points = sorted((group.loss.mean, group.accuracy.mean) for group in groups)
    for axes in (left, right):
        assert sorted(chain(*marked(axes).values())) == points
    assert list(marked(left)) == ["convolution", "mixer", "transformer, 1 head"]
    assert list(marked(right)) == ["pix2vec", "Fourier"]
    conv = [(group.loss.mean, group.accuracy.mean) for group in groups if group.block == "conv"]
    assert marked(left)["convolution"] == conv


def test_depth_marks_points_and_lines_alike() -> None:
    groups = cases.study()
    left, right = study.by_depth(groups, "mixer").axes
    assert list(marked(left)) == ["1 block", "3 blocks"]
    colours = {each.get_label(): each.lines[0].get_color() for each in left.containers}
    lines = {(each.lines[0].get_color(), len(each.lines[0].get_xdata())) for each in right.containers}
    assert lines == {(colours["1 block"], 2), (colours["3 blocks"], 4)}
    assert len(right.containers) == 4


def test_layers_are_those_of_the_deepest_networks() -> None:
    groups = cases.study()
    panels = study.by_layer(groups, ("mixer", "conv")).axes
    assert [axes.get_title("left") for axes in panels] == ["mixer, 3 blocks", "convolution, 3 blocks"]
    wanted = next(group for group in groups if group[:3] == ("conv", "fourier", 3))
    means = [layer.mean for layer in wanted.layers]
    assert marked(panels[1])["Fourier"] == list(enumerate(means))


@pytest.mark.parametrize(("seeds", "bars"), [(1, False), (2, True)])
def test_bars_are_drawn_where_networks_were_repeated(seeds: int, bars: bool) -> None:
    axes = study.against_loss(cases.study(seeds)).axes[0]
    assert all(each.has_xerr == each.has_yerr == bars for each in axes.containers)
