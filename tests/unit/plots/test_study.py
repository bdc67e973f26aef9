"""Every network is one point per panel; lines show every layer; error bars are omitted for single seeds."""

from itertools import chain

import pytest
from matplotlib.container import ErrorbarContainer

from isopix.plots import study
from tests.unit.plots import cases


def marked(axes) -> dict[str, list[tuple[float, float]]]:
    """The points of each legend entry."""
    return {
        each.get_label(): [tuple(map(float, point)) for point in each.lines[0].get_xydata()]
        for each in axes.containers
        if isinstance(each, ErrorbarContainer)
    }


def test_both_panels_show_every_network_once() -> None:
    results = cases.study()
    left, right = study.plot_study_loss(results).axes
    points = sorted((point.loss.mean, point.accuracy.mean) for point in results)
    for axes in (left, right):
        assert sorted(chain(*marked(axes).values())) == points
    assert list(marked(left)) == ["convolution", "mixer", "transformer, 1 head"]
    assert list(marked(right)) == ["pix2vec", "Fourier"]
    conv = [(point.loss.mean, point.accuracy.mean) for point in results if point.block == "conv"]
    assert marked(left)["convolution"] == conv


def test_points_and_lines_of_a_depth_have_the_same_color() -> None:
    results = cases.study()
    left, right = study.plot_study_depth(results, "mixer").axes
    assert list(marked(left)) == ["1 block", "3 blocks"]
    colors = {each.get_label(): each.lines[0].get_color() for each in left.containers}
    lines = {(each.lines[0].get_color(), len(each.lines[0].get_xdata())) for each in right.containers}
    assert lines == {(colors["1 block"], 2), (colors["3 blocks"], 4)}
    assert len(right.containers) == 4


def test_layers_are_of_the_deepest_networks() -> None:
    results = cases.study()
    panels = study.plot_study_layers(results, ("mixer", "conv")).axes
    assert [axes.get_title("left") for axes in panels] == ["Mixer, 3 blocks", "Convolution, 3 blocks"]
    expected = next(point for point in results if point[:3] == ("conv", "fourier", 3))
    means = [layer.mean for layer in expected.layers]
    assert marked(panels[1])["Fourier"] == list(enumerate(means))


@pytest.mark.parametrize(("seeds", "bars"), [(1, False), (2, True)])
def test_error_bars_are_shown_for_several_seeds(seeds: int, bars: bool) -> None:
    axes = study.plot_study_loss(cases.study(seeds)).axes[0]
    assert all(each.has_xerr == each.has_yerr == bars for each in axes.containers)
