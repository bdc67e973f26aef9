"""Features of images in the plane: principal components, t-SNE and, where it is installed, UMAP."""

from importlib.util import find_spec

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.analysis.base import Analysis, AnalysisInput, Numbers, image_source, rounded
from isopix.analysis.embeddings import principal_components
from isopix.core.registry import register
from isopix.model.positions import default_pool
from isopix.plots.embeddings import plot_projections
from isopix.plots.style import Figure
from isopix.probing.features import extract_features
from isopix.probing.splits import Standardizer

PERPLEXITY = 30  # of t-SNE, at most a third of the other images (van der Maaten and Hinton 2008: 5 to 50)
FEWEST_IMAGES = 4  # whose neighborhoods t-SNE and UMAP can keep

Plane = Float[Tensor, "B 2"]


@register("feature_projection")
class FeatureProjection(Analysis):
    """Pooled, standardized features of one layer in two dimensions, colored by class."""

    def compute(self, given: AnalysisInput) -> Numbers:
        backbone = given.backbone
        layer = (backbone.depth + 1) // 2 if given.layer is None else given.layer
        pool = given.pool or default_pool(backbone.num_prefix_tokens)
        layers = extract_features(given.network.truncated(layer), given.images, pool=pool)[-1:]
        [features] = Standardizer.fit(layers)(layers)
        _, *found = principal_components(features, 2)
        ratio, plane = (F.pad(each, (0, 2 - each.shape[-1])) for each in found)  # one image has no component
        planes = {"PCA": plane}
        if len(features) >= FEWEST_IMAGES:
            planes |= neighbor_embeddings(features, given.seed)
        return {
            **given.common_results(),
            "layer": layer,
            "pool": pool,
            "labels": list(given.labels),
            "explained_variance_ratio": rounded(ratio),
            "projections": {name: rounded(plane) for name, plane in planes.items()},
        }

    def figure(self, numbers: Numbers) -> Figure:
        return plot_projections(numbers)

    def caption(self, numbers: Numbers) -> str:
        layer = f"Features of layer {numbers['layer']}{image_source(numbers)}, a point for each image."
        return f"{layer} Apart from PCA, distances between groups of points have no meaning."


def neighbor_embeddings(features: Float[Tensor, "B D"], seed: int) -> dict[str, Plane]:
    """Return the embeddings that keep the nearest neighbors of images."""
    from sklearn.manifold import TSNE  # noqa: PLC0415  its import takes a second

    rows = features.double().numpy()
    methods = {"t-SNE": TSNE(perplexity=min(PERPLEXITY, (len(rows) - 1) / 3), random_state=seed)}
    if find_spec("umap"):
        from umap import UMAP  # noqa: PLC0415

        methods["UMAP"] = UMAP(n_neighbors=min(15, len(rows) - 1), random_state=seed, n_jobs=1)
    return {name: torch.from_numpy(each.fit_transform(rows)).float() for name, each in methods.items()}
