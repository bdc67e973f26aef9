"""The growth of the time of a step: the model finds known constants, and its figure shows the numbers."""

import pytest
from isopix.benchmarks import growth
from isopix.benchmarks.growth import FITTED, NetworkSize, fit_model
from isopix.benchmarks.growth_figure import plot_growth
from tests.unit.benchmarks.tiny import WATCH, find

PER_STEP, PER_ACTIVATION, KNOWN = 0.02, 3e-9, 0.001


def seconds(network: NetworkSize, vocab_size: int) -> float:
    """By hand: 16 activations a channel of each block, and the logits."""
    activations = network.side**2 * (16 * network.width * network.depth + vocab_size)
    return KNOWN + PER_STEP / network.batch + PER_ACTIVATION * activations


def test_the_constants_of_exact_times_are_found() -> None:
    size = find("growth").sizes["cpu"]
    recipes = {key: (network, size.recipe_of(network)) for key, network in size.networks().items()}
    vocab_size = recipes["batch", 8][1].model.codec.placeholder(recipes["batch", 8][1].grid).vocab_size
    cases = {
        key: (network, recipe, KNOWN, seconds(network, vocab_size))
        for key, (network, recipe) in recipes.items()
    }
    model, constants = fit_model(cases)
    assert constants == pytest.approx([PER_STEP, PER_ACTIVATION], rel=1e-6)
    assert model == pytest.approx({key: case[3] for key, case in cases.items()}, rel=1e-9)


def test_each_value_changes_one_number_of_the_network() -> None:
    size = find("growth").sizes["cpu"]
    for (name, value), network in size.networks().items():
        assert network == size.base._replace(**{name: value})
        recipe = size.recipe_of(network)
        assert (recipe.model.depth, recipe.model.width) == (network.depth, network.width)
        assert recipe.grid.positions == network.side**2
        assert recipe.model.width // recipe.model.block.heads == growth.HEAD_SIZE


def test_all_values_are_measured_modeled_and_drawn() -> None:
    benchmark = find("growth")
    record = benchmark.run("tiny", WATCH)
    values = benchmark.sizes["tiny"].values
    assert {axis: tuple(map(int, each)) for axis, each in record["alternatives"].items()} == values
    assert record["comparisons"] == []
    assert set(FITTED) < set(record["values"])
    figure = plot_growth(record)
    for axes, (axis, times) in zip(figure.axes, record["alternatives"].items(), strict=True):
        model, measured = axes.lines[:2]
        assert model.get_ydata() == pytest.approx([1 / record["values"][f"model, {axis} {v}"] for v in times])
        assert measured.get_ydata() == pytest.approx([1 / each["median"] for each in times.values()])
