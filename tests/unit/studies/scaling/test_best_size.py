"""The size to train in a time, from a law whose numbers are known."""

from pathlib import Path

import pytest

import isopix
from isopix.recipes import registry
from isopix.studies.scaling import best_size
from isopix.studies.scaling.results import Estimated, Optimum, PowerLaw, ScalingLaw, ScalingResult


@pytest.fixture(autouse=True)
def _law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Laws of `modern.tiny`: sqrt(FLOPs) / 50 parameters, whose loss is 100 / FLOPs ** 0.125."""

    def power(factor: float, exponent: float) -> PowerLaw:
        return PowerLaw(factor, certain(exponent), (factor, exponent), certain(0.0))

    def certain(value: float) -> Estimated:
        return Estimated(value, (value, value))

    laws = {"parameters": power(0.02, 0.5), "tokens": power(1.0, 0.5), "value": power(100.0, -0.125)}
    optimum = Optimum(4e12, certain(4e4), certain(1e7), certain(3.6), inside=True)
    law = ScalingLaw("modern.tiny", "loss", (optimum,), laws)
    facts = {"images": "cifar10, 8 × 8"}
    ScalingResult(facts=facts, laws=(law,), trials={}).saved(tmp_path / "law.json")
    monkeypatch.setattr(best_size, "LAW", tmp_path / "law.json")


def test_the_best_size_is_that_of_the_law() -> None:
    recipe = registry.resolve("modern.tiny", settings=("size=8",)).recipe
    [found] = best_size.best_sizes(recipe, 1.6e13)
    assert (found.measure, found.images, found.beyond) == ("loss", "cifar10, 8 × 8", 4.0)
    assert found.parameters == pytest.approx(80_000)  # a block of width 64 has 12 · 64² and its norms
    assert found.settings[:3] == ("width=64", "depth=2", "block.heads=1")
    assert found.expected == pytest.approx(100 * 1.6e13**-0.125)
    planned = isopix.plan(registry.resolve(recipe, settings=found.settings).recipe)
    assert planned.training_flops * planned.images == pytest.approx(1.6e13, rel=1e-3)


def test_minutes_are_flops_of_this_machine() -> None:
    found = isopix.plan("modern.tiny", "size=8", minutes=30, mfu=0.5)
    assert found.best_sizes[0].beyond * 4e12 == pytest.approx(
        1800 * found.images_per_second * found.training_flops
    )
    assert found.tables()[1].rows[0][0] == "loss"


def test_a_recipe_without_a_law_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no scaling law is known for igpt\.s; allowed: modern\.tiny"):
        isopix.plan("igpt.s", minutes=1)
