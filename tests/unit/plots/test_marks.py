"""Marks of studies have one meaning in all figures, and text is readable in print."""

import pytest
from matplotlib.colors import to_hex, to_rgba

from isopix.plots import biases, study, style
from tests.unit.plots import cases
from tests.unit.plots.drawn import check_readable, legend_texts

RESULTS = cases.results()


def test_color_is_the_block_marker_the_encoding_and_size_the_depth() -> None:
    panels = dict(zip(cases.ENCODINGS, study.plot_study_loss([RESULTS]).axes, strict=True))
    for each in RESULTS.trained:
        color = style.BLOCK_COLORS[each.block]
        for accuracy, face in ((each.accuracy, color), (each.untrained, style.BACKGROUND)):
            point = (each.loss.mean, accuracy.mean)
            [line] = [
                line
                for line in panels[each.encoding].lines
                if line.get_marker() in set(style.MARKERS.values()) and tuple(line.get_xydata()[0]) == point
            ]
            assert (line.get_color(), line.get_markerfacecolor()) == (color, face)
            assert line.get_marker() == style.MARKERS[each.encoding]
            assert line.get_markersize() == style.marker_size(each.depth)


def test_no_color_marker_or_dash_has_two_meanings() -> None:
    colors = [*style.BLOCK_COLORS.values(), *style.ENCODING_COLORS.values(), style.MUTED_COLOR]
    for marks in (map(to_hex, colors), style.MARKERS.values(), map(str, style.DASHES.values())):
        found = list(marks)
        assert len(set(found)) == len(found)


def test_every_panel_starts_at_zero_and_each_row_names_its_baselines() -> None:
    given = RESULTS._replace(baselines={"raw pixels": 0.9, "raw pixels, PCA": 0.31, "chance": 0.1})
    for figure in (study.plot_study_loss([given] * 2), study.plot_study_layers(given, ["mixer", "conv"], 6)):
        shown = [text.get_text() for axes in figure.axes for text in axes.texts]
        assert sorted(shown) == sorted(["raw pixels", "PCA", "chance"] * 2)
        for axes in figure.axes:
            low, high = axes.get_ylim()
            assert (low, high > 0.9) == (0, True)


def test_baselines_that_coincide_are_one() -> None:
    assert study.merge_baselines(cases.BASELINES, 0.009).keys() == {"chance", "PCA", "raw pixels"}
    assert study.merge_baselines(cases.BASELINES, 0.011).keys() == {"chance", "PCA = raw pixels"}


@pytest.mark.parametrize("seeds", [1, 2])
def test_error_bars_are_shown_for_several_seeds(seeds: int) -> None:
    found = study.plot_study_loss([cases.results(seeds)]).axes[0].containers
    assert {each.has_yerr for each in found} == {seeds > 1}  # type: ignore[attr-defined]


def test_a_forest_shades_effects_too_small_to_matter() -> None:
    for axes, rows in zip(biases.plot_forest(cases.FOREST).axes, cases.FOREST.values(), strict=True):
        ends = [each.get_paths()[0].vertices[:, 0] for each in axes.collections]
        assert [(each.min(), each.max()) for each in ends] == [(-row.effect, row.effect) for row in rows]


def test_offsets_that_were_not_sampled_differ_from_those_without_a_change() -> None:
    fractions, samples = cases.field()
    figure = biases.plot_receptive_fields({"conv": (fractions, samples)})
    under, over = figure.axes[0].images
    colors = under.cmap(under.norm(under.get_array()))
    assert (colors == to_rgba(biases.UNSAMPLED_COLOR)).all(-1).sum() == 2
    assert over.get_array().count() == 1
    assert legend_texts(figure)[1] == "offset not sampled"


@pytest.mark.parametrize("seeds", [1, 2])
def test_text_is_readable_in_print(seeds: int) -> None:
    given, layers = cases.results(seeds), {"conv": cases.bias_layers(), "other": cases.bias_layers(1)}
    check_readable(study.plot_study_loss([given]))
    check_readable(study.plot_study_depth(given))
    check_readable(study.plot_study_layers(given, cases.BLOCKS, 6))
    check_readable(biases.plot_forest(cases.FOREST))
    check_readable(biases.compare_inductive_biases(layers, 2.0))
    check_readable(biases.plot_receptive_fields({"conv": cases.field()}))
