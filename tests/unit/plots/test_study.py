"""A network is a point per panel, hollow before training; lines show every layer; marks have one meaning."""

from itertools import product

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from isopix.plots import study, study_marks, style
from tests.unit.plots import cases
from tests.unit.plots.readable import check_readable

Points = list[tuple[float, float]]
RESULTS = cases.results()


def containers(axes: Axes) -> dict[str, ErrorbarContainer]:
    return {str(each.get_label()): each for each in axes.containers if isinstance(each, ErrorbarContainer)}


def marked(axes: Axes) -> dict[str, Points]:
    """The points of each network."""
    return {
        name: [(float(x), float(y)) for x, y in each.lines[0].get_xydata()]
        for name, each in containers(axes).items()
    }


def name(point: study.TrialGroup) -> str:
    return f"{point.block}-{point.encoding}-{point.depth}"


def baselines(axes: Axes) -> list[float]:
    """The heights of the lines over the whole width of a panel."""
    return [
        float(line.get_ydata()[0])
        for line in axes.lines
        if list(line.get_xdata()) == [0, 1] and line.get_color() == style.MUTED_COLOR
    ]


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_every_network_is_a_point_and_a_hollow_one_before_training() -> None:
    figure = study.plot_study_loss([RESULTS, cases.results(pool="grid4")])
    assert [axes.get_title("left") for axes in figure.axes[:2]] == ["pix2vec", "Fourier"]
    for axes, encoding in zip(figure.axes, cases.ENCODINGS * 2, strict=True):
        own = [each for each in RESULTS.trained if each.encoding == encoding]
        expected = {name(each): [(each.loss.mean, each.accuracy.mean)] for each in own}
        before = {f"{name(each)} untrained": [(each.loss.mean, each.untrained.mean)] for each in own}
        assert marked(axes) == expected | before


def test_color_is_the_block_marker_the_encoding_and_size_the_depth() -> None:
    panels = dict(zip(cases.ENCODINGS, study.plot_study_loss([RESULTS]).axes, strict=True))
    for each in RESULTS.trained:
        axes = panels[each.encoding]
        for suffix, hollow in (("", False), (" untrained", True)):
            line = containers(axes)[name(each) + suffix].lines[0]
            color = study_marks.BLOCK_COLORS[each.block]
            assert line.get_color() == color
            assert line.get_markerfacecolor() == (style.BACKGROUND if hollow else color)
            assert line.get_marker() == study_marks.MARKERS[each.encoding]
            assert line.get_markersize() == study_marks.marker_size(each.depth)


def test_no_color_marker_or_dash_has_two_meanings() -> None:
    colors = [*study_marks.BLOCK_COLORS.values(), *study_marks.ENCODING_COLORS.values(), style.MUTED_COLOR]
    assert len({to_hex(each) for each in colors}) == len(colors)
    assert len(set(study_marks.MARKERS.values())) == len(study_marks.MARKERS)
    assert len({str(each) for each in study_marks.DASHES.values()}) == len(study_marks.DASHES)


@pytest.mark.parametrize("rows", [1, 2])
def test_every_panel_has_the_baselines_at_their_values_and_a_row_their_names(rows: int) -> None:
    pools = [RESULTS, cases.results(pool="grid4")][:rows]
    figures = [
        (study.plot_study_loss(pools), rows),
        (study.plot_study_depth(RESULTS), 2),
        (study.plot_study_layers(RESULTS, ["mixer", "conv"], 6), 2),
    ]
    for figure, labeled in figures:
        texts = [text for axes in figure.axes for text in axes.texts]
        names = [study_marks.display_name(each) for each in cases.BASELINES]
        assert sorted(text.get_text() for text in texts) == sorted(names * labeled)
        for axes in figure.axes:
            assert sorted(baselines(axes)) == sorted(cases.BASELINES.values())
            assert axes.get_ylim()[0] == 0


def test_a_baseline_above_all_networks_is_in_view() -> None:
    figure = study.plot_study_loss([RESULTS._replace(baselines={"raw pixels": 0.9})])
    assert figure.axes[0].get_ylim()[1] > 0.9


def test_labels_of_near_baselines_are_apart_and_in_order() -> None:
    figure = study.plot_study_loss([RESULTS])
    figure.canvas.draw()
    texts = {text.get_text(): text.get_window_extent() for text in figure.axes[1].texts}
    assert texts["chance"].y1 < texts["PCA"].y0
    assert texts["PCA"].y1 < texts["raw pixels"].y0


def test_baselines_that_coincide_have_one_line_and_one_label() -> None:
    given = {"raw pixels": 0.3201, "raw pixels, PCA": 0.32, "chance": 0.1}
    axes = study.plot_study_loss([RESULTS._replace(baselines=given)]).axes[1]
    assert [text.get_text() for text in axes.texts] == ["chance", "PCA = raw pixels"]
    assert baselines(axes) == pytest.approx([0.1, 0.32005])


def test_baselines_further_apart_than_a_line_is_wide_are_two() -> None:
    assert study_marks.merge_baselines(cases.BASELINES, 0.009).keys() == {"chance", "PCA", "raw pixels"}
    assert study_marks.merge_baselines(cases.BASELINES, 0.011).keys() == {"chance", "PCA = raw pixels"}


def test_depth_has_a_column_per_encoding_with_the_best_and_with_every_layer() -> None:
    figure = study.plot_study_depth(RESULTS, "mixer")
    upper, lower = figure.axes[:2], figure.axes[2:]
    assert [axes.get_title("left") for axes in upper] == ["pix2vec", "Fourier"]
    for axes, below, encoding in zip(upper, lower, cases.ENCODINGS, strict=True):
        own = [each for each in RESULTS.trained if each.encoding == encoding]
        for block in cases.BLOCKS:
            points = [each for each in own if each.block == block]
            assert marked(axes)[block] == [(each.depth, each.accuracy.mean) for each in points]
            assert marked(axes)[f"{block} untrained"] == [
                (each.depth, each.untrained.mean) for each in points
            ]
        for group, suffix in ((RESULTS.trained, ""), (RESULTS.untrained, " untrained")):
            for each in group:
                if (each.block, each.encoding) == ("mixer", encoding):
                    layers = list(enumerate(layer.mean for layer in each.layers))
                    assert marked(below)[name(each) + suffix] == layers
        assert len(marked(below)) == 4


def test_a_dash_is_a_depth() -> None:
    lower = study.plot_study_depth(RESULTS).axes[2]
    patterns = {key: each.lines[0]._unscaled_dash_pattern for key, each in containers(lower).items()}  # type: ignore[attr-defined]
    for depth in cases.DEPTHS:
        own = {patterns[f"conv-pix2vec-{depth}{suffix}"] for suffix in ("", " untrained")}
        assert len(own) == 1
    assert patterns["conv-pix2vec-1"] != patterns["conv-pix2vec-3"]


def test_layers_are_of_the_deepest_networks_in_the_color_of_their_encoding() -> None:
    figure = study.plot_study_layers(RESULTS, ["mixer", "conv"], 6)
    assert [axes.get_title("left") for axes in figure.axes[:2]] == [
        "Mixer, 3 blocks",
        "Convolution, 3 blocks",
    ]
    panels = list(product(cases.ENCODINGS, ["mixer", "conv"]))
    for axes, (encoding, block) in zip(figure.axes, panels, strict=True):
        expected = {}
        for group, suffix in ((RESULTS.trained, ""), (RESULTS.untrained, " untrained")):
            for each in group:
                if (each.block, each.encoding, each.depth) == (block, encoding, 3):
                    expected[name(each) + suffix] = list(enumerate(layer.mean for layer in each.layers))
        assert marked(axes) == expected
        for each in containers(axes).values():
            assert each.lines[0].get_color() == study_marks.ENCODING_COLORS[encoding]


def test_trained_networks_of_other_encodings_are_pale() -> None:
    axes = study.plot_study_layers(RESULTS, ["mixer"], 6).axes[0]
    (pale,) = [line for line in axes.lines if line.get_alpha() is not None]
    (other,) = [each for each in RESULTS.trained if name(each) == "mixer-fourier-3"]
    assert list(pale.get_ydata()) == [layer.mean for layer in other.layers]
    assert pale.get_color() == study_marks.ENCODING_COLORS["fourier"]


def test_layers_are_of_no_deeper_networks_than_asked_for() -> None:
    axes = study.plot_study_layers(RESULTS, ["mixer"], 2).axes[0]
    assert axes.get_title("left") == "Mixer, 1 block"
    assert {len(points) for points in marked(axes).values()} == {2}


def test_legends_explain_every_mark() -> None:
    encodings, blocks = ["pix2vec", "Fourier"], ["convolution", "mixer", "transformer, 1 head"]
    sizes, dashes = ["1 block", "3 blocks"], ["every layer, 1 block", "every layer, 3 blocks"]
    hollow = ["hollow: untrained"]
    assert legend_texts(study.plot_study_loss([RESULTS])) == [*blocks, *sizes, *hollow]
    assert legend_texts(study.plot_study_depth(RESULTS)) == [*blocks, *dashes, *hollow]
    layers = study.plot_study_layers(RESULTS, ["mixer"], 6)
    pale = "pale: other encodings"
    assert legend_texts(layers) == [*encodings, "every layer, 3 blocks", *hollow, pale]


def test_the_loss_has_its_unit() -> None:
    label = study.plot_study_loss([RESULTS]).axes[0].get_xlabel()
    assert label.split() == ["Loss", "(nats", "per", "masked", "sub-pixel)"]


def test_blocks_have_one_order_whatever_the_order_of_trials() -> None:
    turned = RESULTS._replace(trained=RESULTS.trained[::-1], untrained=RESULTS.untrained[::-1])
    for given in (RESULTS, turned):
        for figure in (study.plot_study_loss([given]), study.plot_study_depth(given)):
            assert legend_texts(figure)[:3] == ["convolution", "mixer", "transformer, 1 head"]
        upper = study.plot_study_depth(given).axes[0]
        assert list(marked(upper))[::2] == [f"{block} untrained" for block in cases.BLOCKS]


@pytest.mark.parametrize("seeds", [1, 2])
def test_text_is_readable_in_print_and_axes_have_labels(seeds: int) -> None:
    given = cases.results(seeds)
    check_readable(study.plot_study_loss([given]))
    check_readable(study.plot_study_depth(given))
    check_readable(study.plot_study_layers(given, cases.BLOCKS, 6))


@pytest.mark.parametrize(("seeds", "bars"), [(1, False), (2, True)])
def test_error_bars_are_shown_for_several_seeds(seeds: int, bars: bool) -> None:
    axes = study.plot_study_loss([cases.results(seeds)]).axes[0]
    found = containers(axes)
    assert all(each.has_yerr == bars for each in found.values())
    assert all(each.has_xerr == (bars and "untrained" not in key) for key, each in found.items())
