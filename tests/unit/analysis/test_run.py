"""Analyses of a network are its numbers, or say why there are none."""

import json
from dataclasses import replace

import pytest
import torch

from isopix.analysis import attention
from isopix.analysis.run import BIASES, DoesNotApplyError, Subject, analyse
from isopix.model.blocks import ConvolutionSpec
from isopix.model.positions import NoPositionEmbeddingSpec
from isopix.model.stems import PatchEmbedSpec
from isopix.plots.analyses import DRAW
from isopix.runs.load import Loaded
from tests.laws import cases

AR, MASKED = cases.autoregressive()[0], cases.masked()[0]
GROWN = next(case for case in cases.transformers() if case.model.class_token)
AXIAL = next(case for case in cases.masked() if case.model.block.kind == "axial").updated(
    stem=PatchEmbedSpec()
)


def subject(recipe: cases.Recipe, count: int = 4, **settings: object) -> Subject:
    network = cases.busy(recipe).eval()
    return Subject(Loaded(recipe, network, 7, [], {}), cases.images(recipe, count), **settings)


@pytest.mark.parametrize("recipe", [AR, MASKED, GROWN, AXIAL], ids=cases.title)
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
    expected = attention.distance_by_head(given.loaded.network, given.images, cell=1)
    head = found["layers"][1]["heads"][0]
    assert head["pixels"] == pytest.approx(expected[1, 0].mean().item())
    assert head["deviation"] == pytest.approx(expected[1, 0].std().item())
    even = attention.uniform_distance(given.backbone.grid, causal=recipe.objective.causal)
    assert head["of_even"] == pytest.approx(head["pixels"] / even)


def test_a_convolution_does_not_attend_and_all_else_is_told() -> None:
    bare = MASKED.updated(block=ConvolutionSpec(), positions=NoPositionEmbeddingSpec())
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
    gazed = attention.gaze(given.loaded.network, given.images[2:3], torch.tensor([9, 30]))
    shown = torch.tensor(found["queries"][1]["heads"])
    torch.testing.assert_close(shown.flatten(2), gazed.heads[1], rtol=1e-3, atol=1e-6)


def test_positions_are_told_by_row_and_column_behind_the_class_token() -> None:
    given = subject(GROWN, places=((1, 2), "class"))
    assert given.backbone.grid == (2, 4)
    found = dict(analyse(given))
    gazed = attention.gaze(given.loaded.network, given.images[:1], torch.tensor([1 + 4 + 2, 0]))
    for number, place in enumerate([(1, 2), "class"]):
        kept = [found[name]["queries"][number] for name in ("attention-maps", "rollout")]
        assert [each["position"] for each in kept] == [place] * 2
        heads, flow = torch.tensor(kept[0]["heads"]), torch.tensor(kept[1]["rollout"])
        torch.testing.assert_close(heads.flatten(2), gazed.heads[number], rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(flow.flatten(), gazed.rollout[number], rtol=1e-3, atol=1e-6)


def test_the_class_token_is_looked_from_where_there_is_one() -> None:
    assert subject(GROWN).looked == ["class"]
    assert subject(MASKED).looked == [(4, 3)]


def test_rows_may_be_left_short_of_what_the_class_token_takes() -> None:
    given = subject(GROWN, renormalise=False)
    found = dict(analyse(given))["attention-distance"]
    cell = given.codec.patch_size
    short = attention.distance_by_head(given.loaded.network, given.images, cell=cell, renormalise=False)
    assert not found["renormalised"]
    assert found["layers"][0]["heads"][0]["pixels"] == pytest.approx(short[0, 0].mean().item())


def test_the_halves_of_an_axial_block_are_named_and_compared_with_what_each_can_reach() -> None:
    found = dict(analyse(subject(AXIAL)))
    halves = ["1 rows", "1 columns", "2 rows", "2 columns"]
    reached = {"rows": 10.0, "columns": 4.0}  # 8 pixels times 5/4 for four in a row, and 1/2 for two
    distance = found["attention-distance"]
    assert [layer["layer"] for layer in distance["layers"]] == halves
    assert found["attention-maps"]["attentions"] == halves
    assert distance["even_distances"] == pytest.approx(reached)
    for layer in distance["layers"]:
        for head in layer["heads"]:
            assert head["of_even"] == pytest.approx(head["pixels"] / reached[layer["layer"].split()[1]])


def test_a_head_with_nowhere_else_to_look_is_even() -> None:
    single = AXIAL.updated(data=replace(AXIAL.data, rows=8))
    *_, columns = dict(analyse(subject(single)))["attention-distance"]["layers"]
    assert {(head["pixels"], head["of_even"]) for head in columns["heads"]} == {(0.0, 1.0)}


def test_biases_are_measured_on_few_images() -> None:
    found = dict(analyse(subject(MASKED, BIASES + 3)))
    assert found["biases"]["images"] == BIASES
    assert found["attention-distance"]["images"] == BIASES + 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image": 4}, "image 4 is not there; images are 0 to 3"),
        ({"places": ((6, 0),)}, "position 6,0 is not there; rows are 0 to 5, columns 0 to 5"),
        ({"places": ("class",)}, "position class is not there; this network has no class token"),
    ],
)
def test_what_is_not_there_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dict(analyse(subject(MASKED, **settings)))
