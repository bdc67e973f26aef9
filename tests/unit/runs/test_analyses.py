"""Analyses of a network are its numbers, or say why there are none."""

import json

import pytest
import torch

from isopix.analysis import attention
from isopix.model.blocks import Convolution
from isopix.model.positions import NoPositions
from isopix.plots.analyses import DRAW
from isopix.runs.analyses import BIASES, DoesNotApplyError, Subject, analyse
from isopix.runs.load import Loaded
from tests.laws import cases

AR, MASKED = cases.autoregressive()[0], cases.masked()[0]


def subject(recipe: cases.Recipe, count: int = 4, **settings: object) -> Subject:
    network = cases.busy(recipe).eval()
    return Subject(Loaded(recipe, network, 7, [], {}), cases.images(recipe, count), **settings)


@pytest.mark.parametrize("recipe", [AR, MASKED], ids=cases.title)
def test_all_analyses_of_an_attending_network_can_be_kept_and_drawn(recipe: cases.Recipe) -> None:
    found = dict(analyse(subject(recipe)))
    for name, numbers in found.items():
        assert not isinstance(numbers, DoesNotApplyError)
        assert numbers["step"] == 7
        DRAW[name](json.loads(json.dumps(numbers, allow_nan=False)))


@pytest.mark.parametrize("recipe", [AR, MASKED], ids=cases.title)
def test_distances_are_means_and_deviations_over_images(recipe: cases.Recipe) -> None:
    given = subject(recipe)
    found = dict(analyse(given))["attention-distance"]
    expected = attention.distance_by_head(given.backbone, given.images, cell=1)
    head = found["layers"][1]["heads"][0]
    assert head["pixels"] == pytest.approx(expected[1, 0].mean().item())
    assert head["deviation"] == pytest.approx(expected[1, 0].std().item())
    even = attention.uniform_distance(given.backbone.grid, causal=recipe.objective.causal)
    assert head["of_even"] == pytest.approx(head["pixels"] / even)


def test_a_convolution_does_not_attend_and_all_else_is_told() -> None:
    bare = cases.replace(MASKED, block=Convolution(), positions=NoPositions())
    found = dict(analyse(subject(bare)))
    said = {name: str(why) for name, why in found.items() if isinstance(why, DoesNotApplyError)}
    assert list(said) == ["attention-distance", "attention-maps", "rollout", "positions"]
    assert said["rollout"] == "a convolution does not attend: there are no attention weights to look at"
    assert "nothing that tells positions apart" in said["positions"]
    assert "\n" not in "".join(said.values())


def test_one_image_has_no_deviation() -> None:
    found = dict(analyse(subject(MASKED, 1)))["attention-distance"]
    assert {head["deviation"] for layer in found["layers"] for head in layer["heads"]} == {0.0}


def test_maps_are_of_the_image_and_the_positions_that_were_asked_for() -> None:
    given = subject(MASKED, image=2, places=((1, 3), (5, 0)))
    found = dict(analyse(given))["attention-maps"]
    assert [query["position"] for query in found["queries"]] == [(1, 3), (5, 0)]
    gazed = attention.gaze(given.backbone, given.images[2:3], torch.tensor([9, 30]))
    shown = torch.tensor(found["queries"][1]["heads"])
    torch.testing.assert_close(shown.flatten(2), gazed.heads[1], rtol=1e-3, atol=1e-6)


def test_biases_are_measured_on_few_images() -> None:
    found = dict(analyse(subject(MASKED, BIASES + 3)))
    assert found["biases"]["images"] == BIASES
    assert found["attention-distance"]["images"] == BIASES + 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image": 4}, "image 4 is not there; images are 0 to 3"),
        ({"places": ((6, 0),)}, "position 6,0 is not there; rows are 0 to 5, columns 0 to 5"),
    ],
)
def test_what_is_not_there_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dict(analyse(subject(MASKED, **settings)))
