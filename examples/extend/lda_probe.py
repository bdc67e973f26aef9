"""A linear-discriminant probe by scikit-learn.

isopix probe runs/digits --plugin examples/extend/lda_probe.py --method lda
"""

from collections.abc import Iterator

import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from isopix import parts


@parts.register("lda")
class LDAProbe(parts.ProbeMethod):
    """Linear discriminant analysis with a covariance that is shrunk towards a multiple of the identity."""

    shrinkage: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.shrinkage <= 1:
            raise ValueError(f"shrinkage {self.shrinkage} must lie in [0, 1]")

    def label(self) -> str:
        return f"linear discriminant analysis, shrinkage {self.shrinkage:g}"

    def fit_layers(self, problem: parts.ProbeProblem) -> Iterator[parts.FittedProbe]:
        for layer in range(len(problem.splits.train.features)):
            splits = problem.splits.select_layers(layer, layer + 1)
            model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=self.shrinkage)
            model.fit(splits.train.features[0].numpy(), problem.class_indices(splits.train.labels).numpy())

            def predict_proba(
                features: torch.Tensor, model: LinearDiscriminantAnalysis = model
            ) -> torch.Tensor:
                probabilities = torch.zeros(len(features[0]), len(problem.classes))
                found = torch.from_numpy(model.predict_proba(features[0].cpu().numpy())).float()
                probabilities[:, model.classes_] = found
                return probabilities[None].to(features.device)

            predicted = predict_proba(splits.validation.features).argmax(-1)
            correct = problem.is_correct(predicted.to(problem.device), splits.validation.labels)
            accuracy = correct.double().mean(-1).cpu()
            yield parts.FittedProbe(accuracy, predict_proba, fit=[{"shrinkage": self.shrinkage}])
