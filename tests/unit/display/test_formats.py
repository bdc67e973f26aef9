"""Percentages with their spread: one number has none."""

from isopix.core.formats import mean_and_std, mean_over_subsets


def test_one_number_has_no_standard_deviation() -> None:
    assert mean_and_std([0.5, 0.6, 0.7]) == "60.0% ± 10.0%"
    assert mean_over_subsets(3) == "mean ± std over 3 random subsets"
    assert mean_and_std([0.622]) == "62.2%"
    assert mean_over_subsets(1) == "1 random subset"
