"""A probe method that returns what is not asked for is named, with what is allowed."""

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

from isopix.probing.base import FittedProbe, ProbeMethod, ProbeProblem
from isopix.probing.probe import fit_probe
from tests.unit.probing.cases import CPU, QUICK, easy, stacked

LAYERS, CLASSES, TEST = 2, len(set(easy().train.labels.tolist())), len(easy().test)


def predict(features: torch.Tensor) -> torch.Tensor:
    return torch.full((len(features), features.shape[1], CLASSES), 1 / CLASSES)


class Given(ProbeMethod):
    """Yields what a test says, for each layer in turn."""

    kind = "given"
    field: str = "l2"
    times: int = LAYERS
    fitted: Any = FittedProbe(torch.tensor([0.5]), predict, [{}])

    def grid(self, l2_grid: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
        return self.field, ()

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        for _ in range(self.times):
            yield self.fitted


def fitted(**changes: Any) -> FittedProbe:
    """A right result but for these fields, past the type checker of the tests, which no plugin has."""
    made = copy(Given().fitted)
    for name, value in changes.items():
        object.__setattr__(made, name, value)
    return made


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "field": ({"field": "mine"}, "selects 'mine' in grid(); allowed: l2, lr, neighbors"),
    "none": ({"times": 0}, "yields 0 layers from fit_layers(); allowed: all 2"),
    "too few": ({"times": 1}, "yields 1 layers from fit_layers(); allowed: all 2"),
    "too many": ({"times": 3}, "yields diagnostics of 1 layers; allowed: 1 to 0, those that remain"),
    "type": ({"fitted": 3}, "yields int from fit_layers(); allowed: FittedProbe"),
    "shape of accuracies": (
        {"fitted": fitted(val_accuracy=torch.tensor(0.5))},
        "yields val_accuracy []; allowed: a tensor [1], one a layer",
    ),
    "number": (
        {"fitted": fitted(val_accuracy=0.5)},
        "yields val_accuracy float; allowed: a tensor [1], one a layer",
    ),
    "nan": (
        {"fitted": fitted(val_accuracy=torch.tensor([torch.nan]))},
        "yields val_accuracy [nan]; allowed: fractions of images, 0 to 1",
    ),
    "percent": (
        {"fitted": fitted(val_accuracy=torch.tensor([50.0]))},
        "yields val_accuracy [50.0]; allowed: fractions of images, 0 to 1",
    ),
    "diagnostics": (
        {"fitted": fitted(diagnostics=[{"mine": 1}])},
        "yields diagnostics with 'mine'; allowed: l2, lr, neighbors, objective, grad_norm, iterations",
    ),
    "shape of probabilities": (
        {"fitted": fitted(predict_proba=lambda features: torch.zeros(3, 2))},
        f"predicts [3, 2]; allowed: {[1, TEST, CLASSES]} of layers, images and classes",
    ),
    "probabilities": (
        {"fitted": fitted(predict_proba=lambda features: predict(features) * torch.nan)},
        "predicts probabilities that are not finite; allowed: finite numbers",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_method_may_not_return_is_named(case: str) -> None:
    settings, message = WRONG[case]
    with pytest.raises(ValueError, match=f"^probe given {re.escape(message)}$"):
        fit_probe(stacked(easy(), easy()), replace(QUICK, method=Given(**settings)), device=CPU)


def test_a_method_that_predicts_always_alike_is_as_good_as_chance() -> None:
    found = fit_probe(stacked(easy(), easy()), replace(QUICK, method=Given()), device=CPU)
    assert len(found.layers) == LAYERS
    assert [score.val_accuracy for score in found.layers] == [0.5, 0.5]
