"""Differences beyond the tolerance, other shapes and numbers that are not finite are errors."""

import math

import pytest
import torch

from isopix.benchmarks.numerics import NumericsError, require_close, require_equal, require_loss


def test_close_numbers_are_relative_to_the_largest() -> None:
    expected = torch.tensor([0.0, 100.0])
    assert require_close("logits", torch.tensor([0.05, 100.0]), expected, 1e-3) == "logits equal within 5e-04"
    with pytest.raises(NumericsError, match=r"logits differ by 5.0e-03 of the largest; allowed: 1e-03"):
        require_close("logits", torch.tensor([0.5, 100.0]), expected, 1e-3)


@pytest.mark.parametrize("wrong", [torch.tensor([math.nan, 1.0]), torch.ones(3)])
def test_nan_and_other_shapes_are_errors(wrong: torch.Tensor) -> None:
    with pytest.raises(NumericsError):
        require_close("logits", wrong, torch.ones(2), 1e-3)


def test_zeros_prove_nothing() -> None:
    with pytest.raises(NumericsError):
        require_close("logits", torch.zeros(2), torch.zeros(2), 1e-3)


def test_codes_may_differ_in_a_fraction() -> None:
    codes = torch.arange(100)
    assert require_equal("codes", codes.clone().index_fill_(0, codes[:1], 7), codes, 0.99).endswith(
        "99.00% equal"
    )
    with pytest.raises(NumericsError, match=r"98.00% equal"):
        require_equal("codes", codes.clone().index_fill_(0, codes[:2], 7), codes, 0.99)
    with pytest.raises(NumericsError, match="shapes"):
        require_equal("codes", codes[:50], codes, 0.0)


@pytest.mark.parametrize("loss", [1.02, 0.98, math.nan, math.inf])
def test_another_loss_is_an_error(loss: float) -> None:
    require_loss("step", 1.001, 1.0, 1e-2)
    with pytest.raises(NumericsError, match="step: loss"):
        require_loss("step", loss, 1.0, 1e-2)
