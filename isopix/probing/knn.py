"""k-nearest neighbors: a probe without parameters, weighted by cosine similarity."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.core.choices import Number, PositiveNumber
from isopix.core.registry import register
from isopix.probing.base import FittedProbe, Probabilities, ProbeMethod, ProbeProblem
from isopix.probing.splits import Features, FeatureSplit, FeatureSplits, Standardizer

NEIGHBORS = "number of neighbors"  # what validation selects
TEMPERATURE = 0.07  # Wu, Xiong, Yu, Lin 2018, Unsupervised Feature Learning via Non-Parametric Instance
NUM_NEIGHBORS = 20  # Discrimination, section 3.4; they use 200, too many for some hundred images
BATCH_SIZE = 1024  # images that are compared with all training images at once


@register("knn", "k-nearest neighbors")
class KnnProbe(ProbeMethod):
    """Weighted k-NN: the nearest k vote with exp(cosine / temperature) (Wu et al. 2018, section 3.4)."""

    neighbors_grid: tuple[int, ...] = (10, 20, 50, 100, 200)
    """Numbers of neighbors k to select from."""
    temperature: PositiveNumber = TEMPERATURE
    """Temperature of the votes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.neighbors_grid or min(self.neighbors_grid) < 1:
            raise ValueError(f"neighbors_grid {self.neighbors_grid} must be one or more positive numbers")

    def fixed(self, selected: Mapping[str, Number]) -> "KnnProbe":
        return replace(self, neighbors_grid=(int(selected[NEIGHBORS]),))

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        return map(self._fit_layer, problem.parts(1))

    def _fit_layer(self, problem: ProbeProblem) -> FittedProbe:
        splits = problem.splits.map(lambda split: split.to(problem.device))
        standardizer = Standardizer.fit(splits.train, splits.stored_scale)
        points = F.normalize(standardizer(splits.train.features)[0], dim=-1)
        targets = problem.class_indices(splits.train.labels)

        def votes(features: Features, neighbors_grid: Sequence[int]) -> Float[Tensor, "S B C"]:
            queries = F.normalize(standardizer(features)[0], dim=-1)
            votes = queries.new_zeros(len(neighbors_grid), len(queries), len(problem.classes))
            parts = zip(torch.split(votes, BATCH_SIZE, 1), torch.split(queries, BATCH_SIZE), strict=True)
            for part, batch in parts:
                nearest = (batch @ points.T).topk(max(neighbors_grid), dim=-1)
                weights, voters = (nearest.values / self.temperature).exp(), targets[nearest.indices]
                for own, k in zip(part, neighbors_grid, strict=True):
                    own.scatter_add_(1, voters[:, :k], weights[:, :k])
            return votes / votes.sum(-1, keepdim=True)

        # In descending order, so that ties select the largest.
        grid = sorted({min(k, len(splits.train)) for k in self.neighbors_grid}, reverse=True)
        predictions = votes(splits.validation.features, grid).argmax(-1)
        accuracies = problem.is_correct(predictions, splits.validation.labels).double().mean(-1)
        best = int(accuracies.argmax())

        def predict_proba(features: Features) -> Probabilities:
            return votes(features, grid[best : best + 1])

        return FittedProbe(accuracies[best : best + 1].cpu(), predict_proba, [{NEIGHBORS: grid[best]}])


def knn_accuracy(
    train: FeatureSplit, queries: FeatureSplit, num_neighbors: int = NUM_NEIGHBORS
) -> list[float]:
    """Return the k-NN accuracy of each layer on `queries`: milliseconds for a few hundred images."""
    problem = ProbeProblem(FeatureSplits(train, queries, queries), train.features.device, seed=0)
    fits = KnnProbe(neighbors_grid=(num_neighbors,)).fit_layers(problem)
    return [fitted.val_accuracy.item() for fitted in fits]
