"""Attention distance equals its closed forms, rollout an explicit product."""

import math
from dataclasses import replace

import pytest
import torch

from isopix.analysis import attention
from isopix.analysis.base import AnalysisInput, analyze_network, registered_analyses
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.network import Network
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.objectives.objectives import Autoregressive
from isopix.runs.load import LoadedRun
from isopix.runs.state import State
from tests.laws import cases

GRIDS = [Grid(3, 5), Grid(4, 4), Grid(1, 6)]
AR, MASKED = cases.autoregressive()[0], cases.masked()[0]
WITH_CLASS_TOKEN = next(case for case in cases.transformers() if case.model.class_token)


def attention_weights(network: Network, images: torch.Tensor) -> list[torch.Tensor]:
    weights = network.backbone.attention_weights(network.inputs_of(images))
    return [each.detach() for each in weights]


def naive(weights: torch.Tensor, grid: Grid, patch_size: int) -> float:
    total = 0.0
    for i in range(grid.positions):
        for j in range(grid.positions):
            down, right = i // grid.cols - j // grid.cols, i % grid.cols - j % grid.cols
            total += float(weights[i, j]) * patch_size * math.sqrt(down**2 + right**2)
    return total / grid.positions


def random_weights(grid: Grid, num_prefix: int = 0, causal: bool = False) -> torch.Tensor:
    count = grid.positions + num_prefix
    scores = torch.randn(2, 3, count, count, generator=generator(0, "test.weights"), dtype=torch.float64)
    if causal:
        scores = scores.masked_fill(torch.ones(count, count, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("patch_size", [1, 16])
def test_distance_is_the_mean_over_positions_of_weighted_distances(grid: Grid, patch_size: int) -> None:
    weights = random_weights(grid)
    found = attention.attention_distance(weights, grid, patch_size=patch_size)
    expected = [[naive(weights[b, h], grid, patch_size) for h in range(3)] for b in range(2)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("causal", [False, True])
def test_uniform_attention_matches_its_closed_form(grid: Grid, causal: bool) -> None:
    count = grid.positions
    allowed = torch.ones(count, count, dtype=torch.float64)
    allowed = allowed.tril() if causal else allowed
    uniform = allowed / allowed.sum(1, keepdim=True)
    found = attention.uniform_attention_distance(grid, patch_size=4, causal=causal)
    assert found == pytest.approx(naive(uniform, grid, 4), rel=1e-6)
    nats = attention.attention_entropy(uniform[None, None], grid).item()
    assert nats == pytest.approx(attention.uniform_attention_entropy(grid, causal=causal))
    assert nats == pytest.approx(math.lgamma(count + 1) / count if causal else math.log(count))
    assert attention.attention_entropy(torch.eye(count)[None, None], grid).item() == 0


@pytest.mark.parametrize("num_prefix", [1, 2])
def test_prefix_tokens_have_no_position(num_prefix: int) -> None:
    grid = Grid(3, 4)
    weights = random_weights(grid, num_prefix)
    between = weights[..., num_prefix:, num_prefix:]
    dropped = attention.drop_prefix_tokens(weights, num_prefix)
    torch.testing.assert_close(dropped.sum(-1), torch.ones_like(dropped[..., 0]))
    torch.testing.assert_close(dropped, between / between.sum(-1, keepdim=True))
    unnormalized = attention.attention_distance(weights, grid, renormalize=False)
    assert unnormalized[0, 0].item() == pytest.approx(naive(between[0, 0], grid, 1))
    assert (unnormalized < attention.attention_distance(weights, grid)).all()


@pytest.mark.parametrize("causal", [False, True])
def test_rollout_is_the_product_of_layers_averaged_with_the_identity(causal: bool) -> None:
    grid = Grid(2, 3)
    layers = [random_weights(grid, causal=causal).roll(k, 1) ** (k + 1) for k in range(3)]
    layers = [each / each.sum(-1, keepdim=True) for each in layers]
    found = attention.attention_rollout(layers)
    expected = torch.eye(6, dtype=torch.float64)
    for each in layers:
        expected = (each[1].mean(0) + torch.eye(6)) / 2 @ expected
    torch.testing.assert_close(found[1], expected)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 6, dtype=torch.float64))
    assert bool((found.triu(1) == 0).all()) == causal


@pytest.mark.parametrize("case", [AR, MASKED], ids=cases.title)
def test_distances_per_head_do_not_depend_on_the_batch_size(
    case: cases.Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, images = cases.busy(case), cases.images(case, 5)
    grid = network.backbone.grid
    distance, entropy = whole = attention.attention_per_head(network, images, patch_size=1)
    monkeypatch.setattr(attention, "MAX_WEIGHTS", 2 * grid.positions**2)
    parts = attention.attention_per_head(network, images, patch_size=1)
    assert distance.shape == entropy.shape == (case.model.depth, case.model.block.heads, 5)
    torch.testing.assert_close(parts, whole)
    every = attention_weights(network, images)
    direct = [attention.attention_distance(weights, grid)[3] for weights in every]
    torch.testing.assert_close(distance[..., 3], torch.stack(direct))
    entropies = [
        torch.distributions.Categorical(weights[3]).entropy().mean(-1)
        for weights in attention_weights(network, images)
    ]
    torch.testing.assert_close(entropy[..., 3], torch.stack(entropies), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", [AR, MASKED, WITH_CLASS_TOKEN], ids=cases.title)
def test_attention_maps_are_the_rows_of_the_query_positions(case: cases.Recipe) -> None:
    """After a class token, which is no position."""
    network, image = cases.busy(case), cases.images(case, 1)
    prefix, positions = int(case.model.class_token), network.backbone.grid.positions
    found = attention.attention_from(network, image, torch.tensor([0, 3]))
    layers = attention_weights(network, image)
    assert layers[0].shape[-1] == prefix + positions
    for query, token in enumerate((0, 3)):
        rows = torch.stack([each[0, :, token, prefix:] for each in layers])
        torch.testing.assert_close(found.heads[query], rows / rows.sum(-1, keepdim=True))
        rollout = attention.attention_rollout(layers)[0, token, prefix:]
        torch.testing.assert_close(found.rollout[query], rollout / rollout.sum())
    later = torch.arange(positions) > 3
    assert bool((found.heads[1, :, :, later] == 0).all()) == isinstance(case.objective, Autoregressive)


def zero_queries(network: Network) -> Network:
    """The network with every attention uniform over the positions that it may attend to."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "qkv" in name:
                parameter[: len(parameter) // 3] = 0
    return network


AXIAL = next(case for case in cases.CASES if case.model.block.kind == "axial")


@pytest.mark.parametrize("case", [AR, MASKED, WITH_CLASS_TOKEN, AXIAL], ids=cases.title)
def test_uniform_maps_are_those_of_a_network_that_attends_uniformly(case: cases.Recipe) -> None:
    network, image = zero_queries(cases.busy(case)), cases.images(case, 1)
    queries = torch.tensor([3, 6])
    found = attention.attention_from(network, image, queries, causal=case.objective.causal)
    torch.testing.assert_close(found.heads, found.uniform_heads[:, :, None].expand_as(found.heads))
    torch.testing.assert_close(found.rollout, found.uniform_rollout)
    kept = (found.uniform_heads > 0).sum(-1)
    if case.objective.causal:
        assert (kept == torch.tensor([[4], [7]])).all()


AXIAL_PATCHES = next(case for case in cases.masked() if case.model.block.kind == "axial").updated(
    stem=PatchEmbedSpec()
)
ANALYSES = registered_analyses()


def given(recipe: cases.Recipe, count: int = 4, **settings: object) -> AnalysisInput:
    loaded = LoadedRun(recipe, cases.busy(recipe).eval(), State(step=7))
    images, seed = cases.images(recipe, count), recipe.train.seed
    facts = {"seed": seed, "untrained": loaded.untrained, "causal": loaded.recipe.objective.causal}
    return AnalysisInput(loaded.network, images, **facts, **settings)


def compute(name: str, *arguments: object, **settings: object) -> dict:
    return ANALYSES[name].compute(given(*arguments, **settings))


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
    found = compute("attention_distance", AXIAL_PATCHES)
    assert [layer["layer"] for layer in found["layers"]] == names
    assert compute("attention_maps", AXIAL_PATCHES)["layer_names"] == names
    assert found["uniform_distances"] == pytest.approx(uniform)
    for layer in found["layers"]:
        for head in layer["heads"]:
            expected = head["mean"] / uniform[layer["layer"].split()[1]]
            assert head["relative_to_uniform"] == pytest.approx(expected)


def test_all_analyses_of_axial_blocks_can_be_plotted() -> None:
    """Those of other blocks are golden."""
    for name, numbers in analyze_network(given(AXIAL_PATCHES)).analyses.items():
        assert ANALYSES[name].figure(numbers).axes


def test_attention_over_a_single_position_is_uniform() -> None:
    single = AXIAL_PATCHES.updated(data=replace(AXIAL_PATCHES.data, rows=8))
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
