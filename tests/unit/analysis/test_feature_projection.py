"""Projections are of the features of the layer, keep neighbors, and have the colors of classes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from sklearn.preprocessing import StandardScaler

from isopix.analysis.base import registered_analyses
from isopix.analysis.feature_projection import neighbor_embeddings
from isopix.core.random import generator
from isopix.plots.style import MUTED_COLOR
from tests.unit.analysis.test_attention import AXIAL_PATCHES, given

PROJECTION = registered_analyses()["feature_projection"]


def test_principal_components_are_scikit_learns_of_the_pooled_features_of_the_layer() -> None:
    subject = replace(given(AXIAL_PATCHES, 12), layer=1, pool="mean")
    found = PROJECTION.compute(subject)
    backbone = subject.network.backbone
    with torch.no_grad():
        features = list(backbone.features(subject.network.inputs_of(subject.images)))[1].mean(1)
    expected = PCA(2, svd_solver="full").fit(StandardScaler().fit_transform(features.double().numpy()))
    theirs = expected.transform(StandardScaler().fit_transform(features.double().numpy()))
    ours = np.array(found["projections"]["PCA"])
    np.testing.assert_allclose(ours * np.sign((ours * theirs).sum(0)), theirs, atol=2e-3)
    np.testing.assert_allclose(found["explained_variance_ratio"], expected.explained_variance_ratio_, 1e-3)


def test_neighbors_stay_neighbors() -> None:
    draw = generator(0, "test.projection")
    features = torch.randn(90, 8, generator=draw) + 6 * torch.eye(8)[torch.arange(90) % 5]
    plane = neighbor_embeddings(features, seed=0)["t-SNE"]
    assert trustworthiness(features.numpy(), plane.numpy(), n_neighbors=8) > 0.9


@pytest.mark.parametrize("count", [1, 3, 4])
def test_points_have_the_color_of_their_class_and_unlabeled_ones_are_gray(count: int) -> None:
    labels = ("a", None, "b", "a")[:count]
    figure = PROJECTION.figure(PROJECTION.compute(replace(given(AXIAL_PATCHES, count), labels=labels)))
    keys = {each.get_label(): to_rgba(each.get_color()) for each in figure.legends[0].legend_handles}
    assert sorted(keys) == sorted({each for each in labels if each})
    assert len({*keys.values(), to_rgba(MUTED_COLOR)}) == len(keys) + 1
    for axes in figure.axes:
        colors = axes.collections[0].get_facecolors()
        assert [tuple(each) for each in colors] == [keys.get(each, to_rgba(MUTED_COLOR)) for each in labels]
