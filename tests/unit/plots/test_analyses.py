"""Figures of position embeddings, embedding PCA and inductive biases show their data."""

import numpy as np
import pytest

from isopix.plots.embeddings import plot_embedding_pca, plot_position_similarity
from isopix.plots.inductive_biases import plot_inductive_biases


def test_each_map_is_at_its_position() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, (2, 3, 4, 6))
    figure = plot_position_similarity({"maps": values.tolist(), "rows": [0, 3], "cols": [0, 2, 5]})
    mosaic = np.asarray(figure.axes[0].images[0].get_array().filled(np.nan))
    assert mosaic.shape == (2 * 5 - 1, 3 * 7 - 1)
    assert np.allclose(mosaic[5:9, 14:20], values[1, 2])
    assert np.isnan(mosaic[4]).all()
    assert figure.axes[0].images[0].get_clim() == (-1, 1)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["0", "2", "5"]
    assert figure.axes[0].get_yticks()[1] == pytest.approx(6.5)  # the middle of rows 5 to 8


def test_every_filter_component_is_an_image_with_its_explained_variance() -> None:
    patches = np.random.default_rng(0).random((9, 4, 4, 3))
    ratios = [0.3, 0.2, *[0.05] * 7]
    figure = plot_embedding_pca(
        {"weights": "filters", "components": patches.tolist(), "explained_variance_ratio": ratios}
    )
    shown = [axes for axes in figure.axes if axes.images]
    assert len(shown) == 9
    assert np.allclose(np.asarray(shown[4].images[0].get_array()), patches[4])
    assert [axes.texts[0].get_text() for axes in shown[:3]] == ["30 %", "20 %", "5.0 %"]


def test_palette_colors_are_at_their_projections() -> None:
    projections = np.random.default_rng(0).normal(size=(17, 4))
    colors = [[level, level, 255 - level] for level in range(17)]
    table = {"projections": projections.tolist(), "explained_variance_ratio": [0.4, 0.3, 0.2, 0.1]}
    figure = plot_embedding_pca({"weights": "tables", "tables": [table], "colors": colors})
    dots = figure.axes[0].collections[0]
    assert np.allclose(dots.get_offsets(), projections[:, :2])
    assert np.allclose(dots.get_facecolors()[:, :3] * 255, colors)
    assert np.allclose(figure.axes[-1].lines[0].get_ydata(), [0.4, 0.7, 0.9, 1])


def test_each_channel_has_a_panel() -> None:
    projections = np.random.default_rng(0).normal(size=(3, 256, 4))
    tables = [
        {"projections": each.tolist(), "explained_variance_ratio": [0.4, 0.3, 0.2, 0.1]}
        for each in projections
    ]
    figure = plot_embedding_pca({"weights": "tables", "tables": tables})
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Red",
        "Green",
        "Blue",
        "",
    ]
    assert np.allclose(figure.axes[1].lines[2].get_ydata(), projections[1, :, 2])


@pytest.mark.parametrize(("codes", "levels"), [(1, 16), (2, 11), (6, 4)])
def test_codes_that_are_no_colors_have_panels_by_their_number(codes: int, levels: int) -> None:
    table = {"projections": np.eye(levels)[:, :4].tolist(), "explained_variance_ratio": [0.5, 0.5]}
    figure = plot_embedding_pca({"weights": "tables", "tables": [table] * codes})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [*(f"Code {i} of {codes}" for i in range(1, min(codes, 4) + 1)), ""]
    assert figure.axes[0].get_xticks().max() == levels - 1


def test_each_bias_has_a_panel_with_its_reference() -> None:
    layers = [
        {"layer": i, "translation_error": 0.1 * i, "permutation_error": 0.5, "receptive_field_mean": 2.0 + i}
        for i in range(3)
    ]
    figure = plot_inductive_biases({"layers": layers, "uniform_receptive_field_mean": 6.5})
    assert [list(axes.lines[0].get_ydata()) for axes in figure.axes] == [
        pytest.approx([0, 0.1, 0.2]),
        [0.5] * 3,
        [2, 3, 4],
    ]
    assert figure.axes[2].lines[1].get_ydata()[0] == 6.5
