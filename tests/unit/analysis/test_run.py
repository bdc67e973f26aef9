"""Every analysis returns numbers that can be saved and plotted, or says why it does not apply."""

import json
import math
from dataclasses import replace

import pytest
import torch

from isopix.analysis import attention
from isopix.analysis.base import AnalysisInput, analyze_network, registered_analyses
from isopix.model.blocks.convolution import ConvolutionSpec
from isopix.model.positions import NoPositionEmbeddingSpec
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.runs.load import LoadedRun
from isopix.runs.state import State
from tests.laws import cases

AR, MASKED = cases.autoregressive()[0], cases.masked()[0]
WITH_CLASS_TOKEN = next(case for case in cases.transformers() if case.model.class_token)
AXIAL = next(case for case in cases.masked() if case.model.block.kind == "axial").updated(
    stem=PatchEmbedSpec()
)


NAMES = [
    *("attention_distance", "attention_maps", "attention_rollout"),
    *("embedding_pca", "inductive_biases", "position_embeddings"),
]
ANALYSES = registered_analyses()


def given(recipe: cases.Recipe, count: int = 4, **settings: object) -> AnalysisInput:
    loaded = LoadedRun(recipe, cases.busy(recipe).eval(), State(step=7))
    images, seed = cases.images(recipe, count), recipe.train.seed
    facts = {"seed": seed, "untrained": loaded.untrained, "causal": loaded.recipe.objective.causal}
    return AnalysisInput(loaded.network, images, **facts, **settings)


def compute(name: str, *arguments: object, **settings: object) -> dict:
    return ANALYSES[name].compute(given(*arguments, **settings))


@pytest.mark.parametrize("recipe", [AR, MASKED, WITH_CLASS_TOKEN, AXIAL], ids=cases.title)
def test_all_analyses_of_a_network_with_attention_can_be_saved_and_plotted(recipe: cases.Recipe) -> None:
    result = analyze_network(given(recipe))
    assert list(result.analyses) == [name for name in NAMES if name not in result.not_applicable]
    assert len(result.analyses) > 4
    for name, numbers in result.analyses.items():
        assert numbers["grid"] == list(recipe.grid)
        saved = json.loads(json.dumps(numbers, allow_nan=False))
        assert ANALYSES[name].figure(saved).axes
        assert ANALYSES[name].caption(saved).endswith(".")


@pytest.mark.parametrize("recipe", [AR, MASKED], ids=cases.title)
def test_attention_distance_has_mean_and_standard_deviation_over_images(recipe: cases.Recipe) -> None:
    subject = given(recipe)
    head = ANALYSES["attention_distance"].compute(subject)["layers"][1]["heads"][0]
    distance, entropy = attention.attention_per_head(subject.network, subject.images, patch_size=1)
    assert head["mean"] == pytest.approx(distance[1, 0].mean().item())
    assert head["std"] == pytest.approx(distance[1, 0].std().item())
    assert head["entropy_mean"] == pytest.approx(entropy[1, 0].mean().item())
    assert head["entropy_std"] == pytest.approx(entropy[1, 0].std().item())
    uniform = attention.uniform_attention_distance(subject.backbone.grid, causal=recipe.objective.causal)
    assert head["relative_to_uniform"] == pytest.approx(head["mean"] / uniform)
    positions = subject.backbone.grid.positions
    nats = math.lgamma(positions + 1) / positions if recipe.objective.causal else math.log(positions)
    assert head["relative_entropy"] == pytest.approx(head["entropy_mean"] / nats)


def test_a_convolution_without_positions_has_the_other_analyses() -> None:
    recipe = MASKED.updated(block=ConvolutionSpec(), positions=NoPositionEmbeddingSpec())
    reasons = analyze_network(given(recipe)).not_applicable
    attentions = ("attention_distance", "attention_maps", "attention_rollout")
    assert reasons == {
        **dict.fromkeys(attentions, "this network has no attention weights"),
        "position_embeddings": "this network has no position embeddings",
    }


def test_positions_are_numbered_after_the_class_token() -> None:
    subject = given(WITH_CLASS_TOKEN, query_positions=((1, 2), "class"))
    assert subject.backbone.grid == (2, 4)
    names = ("attention_maps", "attention_rollout")
    found = {name: ANALYSES[name].compute(subject) for name in names}
    expected = attention.attention_from(subject.network, subject.images[:1], torch.tensor([1 + 4 + 2, 0]))
    for number, position in enumerate([(1, 2), "class"]):
        queries = [found[name]["queries"][number] for name in names]
        assert [each["position"] for each in queries] == [position] * 2
        heads, rollout = torch.tensor(queries[0]["heads"]), torch.tensor(queries[1]["rollout"])
        torch.testing.assert_close(heads.flatten(2), expected.heads[number], rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(rollout.flatten(), expected.rollout[number], rtol=1e-3, atol=1e-6)


def test_row_and_column_attention_of_axial_blocks_are_compared_with_their_own_uniform_attention() -> None:
    names = ["1 rows", "1 columns", "2 rows", "2 columns"]
    uniform = {"rows": 10.0, "columns": 4.0}  # 8 pixels times 5/4 for four in a row, and 1/2 for two
    found = compute("attention_distance", AXIAL)
    assert [layer["layer"] for layer in found["layers"]] == names
    assert compute("attention_maps", AXIAL)["layer_names"] == names
    assert found["uniform_distances"] == pytest.approx(uniform)
    for layer in found["layers"]:
        for head in layer["heads"]:
            expected = head["mean"] / uniform[layer["layer"].split()[1]]
            assert head["relative_to_uniform"] == pytest.approx(expected)


def test_attention_over_a_single_position_is_uniform() -> None:
    single = AXIAL.updated(data=replace(AXIAL.data, rows=8))
    *_, columns = compute("attention_distance", single)["layers"]
    assert {(head["mean"], head["relative_to_uniform"]) for head in columns["heads"]} == {(0.0, 1.0)}
    assert {(head["entropy_mean"], head["relative_entropy"]) for head in columns["heads"]} == {(0.0, 1.0)}
    reason = ANALYSES["inductive_biases"].not_applicable_reason(given(single).network)
    assert reason == "a 1 x 4 grid is too small to be shifted"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image_index": 4}, "image 4 does not exist; images are 0 to 3"),
        ({"query_positions": ((6, 0),)}, "position 6,0 does not exist; rows are 0 to 5, columns 0 to 5"),
        ({"query_positions": ("class",)}, "position class does not exist; this network has no class token"),
    ],
)
def test_images_and_positions_that_do_not_exist_are_rejected(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        given(MASKED, **settings)
