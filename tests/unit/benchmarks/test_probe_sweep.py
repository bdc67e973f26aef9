"""The probe sweep reaches scikit-learn's objectives, and larger ones are noticed."""

import pytest
import torch

from isopix.benchmarks import probe_sweep
from isopix.benchmarks.numerics import NumericsError
from tests.unit.benchmarks.tiny import measured

NAME = "probe.sweep"


def test_both_solvers_of_the_peer_are_measured() -> None:
    own, peer = measured(NAME).times.values()
    assert (set(own), set(peer)) == ({""}, set(probe_sweep.SOLVERS))


def test_larger_objectives_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right = probe_sweep.fit_isopix
    monkeypatch.setattr(probe_sweep, "fit_isopix", lambda *given: right(*given) * (1 + 1e-4))
    with pytest.raises(NumericsError, match="above scikit-learn's"):
        measured(NAME)


def test_fits_that_have_not_converged_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right = probe_sweep.logistic.fit_logistic
    monkeypatch.setattr(
        probe_sweep.logistic, "fit_logistic", lambda *given, **how: right(*given, **how, max_iterations=1)
    )
    with pytest.raises(NumericsError, match="have not converged"):
        measured(NAME)


def test_the_spectrum_is_a_power_law_and_features_are_standardized() -> None:
    features, labels = probe_sweep.random_features(2, 500, 16)
    assert torch.allclose(features.std(1), torch.ones(2, 16), atol=1e-4)
    values = torch.linalg.svdvals(features[0])
    assert values[0] > 5 * values[-1]
    assert labels.max() == 9
