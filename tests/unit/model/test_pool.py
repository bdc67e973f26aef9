"""Pools are over positions, without prefix tokens; only the first token may be one."""

import pytest
import torch

from isopix.core.random import generator
from isopix.model.pool import POOLS, Pool
from isopix.probing.features import extract_features
from tests.laws import cases

WITH_TOKEN = next(case for case in cases.masked() if case.model.class_token)
WITHOUT = next(case for case in cases.masked() if not case.model.class_token)
TOKENS = torch.randn(3, 6, 4, generator=generator(0, "tokens"))


def by_hand(name: Pool, image: list[list[float]], num_prefix: int) -> list[float]:
    """The pool of the tokens of one image, channel by channel."""
    if name in ("first", "last"):
        return image[0] if name == "first" else image[-1]
    channels = zip(*image[num_prefix:], strict=True)
    return [max(each) if name == "max" else sum(each) / len(each) for each in channels]


@pytest.mark.parametrize("num_prefix", [0, 1])
@pytest.mark.parametrize("name", POOLS)
def test_a_pool_is_what_its_name_says(name: Pool, num_prefix: int) -> None:
    expected = [by_hand(name, image, num_prefix) for image in TOKENS.double().tolist()]
    torch.testing.assert_close(POOLS[name](TOKENS, num_prefix), torch.tensor(expected))


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("recipe", [WITH_TOKEN, WITHOUT], ids=["class token", "without"])
def test_features_leave_the_class_token_to_the_first_pool(recipe: cases.Recipe, name: Pool) -> None:
    network, images = cases.busy(recipe), cases.images(recipe)
    with torch.no_grad():
        layers = list(network.features(images))
    assert layers[0].shape[1] == recipe.grid.positions + recipe.model.class_token
    expected = [
        [by_hand(name, image, int(recipe.model.class_token)) for image in layer.double().tolist()]
        for layer in layers
    ]
    torch.testing.assert_close(extract_features(network, images, pool=name), torch.tensor(expected))


@pytest.mark.parametrize(("recipe", "expected"), [(WITH_TOKEN, "first"), (WITHOUT, "mean")])
def test_features_are_by_default_those_of_the_class_token(recipe: cases.Recipe, expected: Pool) -> None:
    network, images = cases.busy(recipe), cases.images(recipe)
    assert torch.equal(extract_features(network, images), extract_features(network, images, pool=expected))
    assert recipe.pool == expected
