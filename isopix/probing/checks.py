"""Checks of what a probe method returns; a mistake in one of a plugin is one line that names it."""

from collections.abc import Sequence
from typing import NoReturn

import torch

from isopix.probing.base import FittedProbe, ProbeMethod
from isopix.probing.config import ProbeConfig
from isopix.probing.results import SELECTED_LABELS

DIAGNOSTICS = ("l2", "lr", "neighbors", "objective", "grad_norm", "iterations")  # fields of `LayerScore`


def check_grid(config: ProbeConfig) -> None:
    """Raise ValueError unless the method selects a field of `LayerScore`."""
    name, _ = config.method.grid(config.l2_grid)
    if name not in SELECTED_LABELS:
        _refuse(config.method, f"selects '{name}' in grid()", ", ".join(SELECTED_LABELS))


def check_fitted(method: ProbeMethod, fitted: object, remaining: int) -> None:
    """Raise ValueError for a fit of other than the next of `remaining` layers, of one that is not finite, or
    with fields that `LayerScore` does not have.
    """
    if not isinstance(fitted, FittedProbe):
        _refuse(method, f"yields {type(fitted).__name__} from fit_layers()", "FittedProbe")
    layers, accuracy = len(fitted.diagnostics), fitted.val_accuracy
    if not 1 <= layers <= remaining:
        _refuse(method, f"yields diagnostics of {layers} layers", f"1 to {remaining}, those that remain")
    if not isinstance(accuracy, torch.Tensor) or accuracy.shape != (layers,):
        _refuse(method, f"yields val_accuracy {_shape(accuracy)}", f"a tensor [{layers}], one a layer")
    if not ((accuracy >= 0) & (accuracy <= 1)).all():
        _refuse(method, f"yields val_accuracy {accuracy.tolist()}", "fractions of images, 0 to 1")
    for name in (name for each in fitted.diagnostics for name in each if name not in DIAGNOSTICS):
        _refuse(method, f"yields diagnostics with '{name}'", ", ".join(DIAGNOSTICS))


def check_layers(method: ProbeMethod, found: int, expected: int) -> None:
    """Raise ValueError for a method that has left out layers."""
    if found != expected:
        _refuse(method, f"yields {found} layers from fit_layers()", f"all {expected}")


def check_probabilities(method: ProbeMethod, views: Sequence[object], shape: tuple[int, ...]) -> None:
    """Raise ValueError unless each view has finite probabilities of this shape [F B C]."""
    for view in views:
        if not isinstance(view, torch.Tensor) or view.shape != shape:
            _refuse(method, f"predicts {_shape(view)}", f"{list(shape)} of layers, images and classes")
        if not view.isfinite().all():
            _refuse(method, "predicts probabilities that are not finite", "finite numbers")


def _shape(value: object) -> str:
    return str(list(value.shape)) if isinstance(value, torch.Tensor) else type(value).__name__


def _refuse(method: ProbeMethod, what: str, allowed: str) -> NoReturn:
    raise ValueError(f"probe {method.kind} {what}; allowed: {allowed}")
