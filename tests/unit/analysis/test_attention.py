"""Attention distance is what its closed forms say; rollout is what a loop multiplies."""

import math

import pytest
import torch

from isopix.analysis import attention
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.objectives.autoregressive import Autoregressive
from tests.laws import cases

GRIDS = [Grid(3, 5), Grid(4, 4), Grid(1, 6)]
AR, MASKED = cases.autoregressive()[0], cases.masked()[0]
GROWN = next(case for case in cases.transformers() if case.model.class_token)


def naive(weights: torch.Tensor, grid: Grid, cell: int) -> float:
    total = 0.0
    for i in range(grid.positions):
        for j in range(grid.positions):
            down, right = i // grid.cols - j // grid.cols, i % grid.cols - j % grid.cols
            total += float(weights[i, j]) * cell * math.sqrt(down**2 + right**2)
    return total / grid.positions


def random_weights(grid: Grid, leading: int = 0, causal: bool = False) -> torch.Tensor:
    count = grid.positions + leading
    scores = torch.randn(2, 3, count, count, generator=generator(0, "test.weights"), dtype=torch.float64)
    if causal:
        scores = scores.masked_fill(torch.ones(count, count, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("cell", [1, 16])
def test_distance_is_the_mean_over_positions_of_weighted_distances(grid: Grid, cell: int) -> None:
    weights = random_weights(grid)
    found = attention.distance(weights, grid, cell=cell)
    expected = [[naive(weights[b, h], grid, cell) for h in range(3)] for b in range(2)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("grid", GRIDS)
def test_a_head_that_looks_at_itself_alone_looks_no_distance_away(grid: Grid) -> None:
    itself = torch.eye(grid.positions)[None, None]
    assert attention.distance(itself, grid, cell=16).item() == 0


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("causal", [False, True])
def test_uniform_attention_has_its_closed_form(grid: Grid, causal: bool) -> None:
    count = grid.positions
    allowed = torch.ones(count, count, dtype=torch.float64)
    allowed = allowed.tril() if causal else allowed
    even = allowed / allowed.sum(1, keepdim=True)
    found = attention.uniform_distance(grid, cell=4, causal=causal)
    assert found == pytest.approx(naive(even, grid, 4), rel=1e-6)
    assert attention.distance(even[None, None], grid, cell=4).item() == pytest.approx(found, rel=1e-6)


def test_uniform_attention_over_a_fine_square_is_the_mean_distance_of_two_random_points() -> None:
    """(2 + sqrt 2 + 5 asinh 1) / 15 of its side."""
    limit = (2 + math.sqrt(2) + 5 * math.asinh(1)) / 15
    assert attention.uniform_distance(Grid(512, 512)) / 512 == pytest.approx(limit, rel=1e-5)


def test_a_row_of_two_by_two_by_hand() -> None:
    """Four corners: 0, 1, 1 and sqrt 2 from each; causally 0, 1/2, (1 + sqrt 2)/3 and (2 + sqrt 2)/4."""
    side = Grid(2, 2)
    root = math.sqrt(2)
    assert attention.uniform_distance(side) == pytest.approx((2 + root) / 4)
    causal = (0.5 + (1 + root) / 3 + (2 + root) / 4) / 4
    assert attention.uniform_distance(side, causal=True) == pytest.approx(causal)


@pytest.mark.parametrize("leading", [1, 2])
def test_leading_tokens_have_no_place(leading: int) -> None:
    grid = Grid(3, 4)
    weights = random_weights(grid, leading)
    among = weights[..., leading:, leading:]
    kept = attention.placed(weights, leading)
    torch.testing.assert_close(kept.sum(-1), torch.ones_like(kept[..., 0]))
    torch.testing.assert_close(kept, among / among.sum(-1, keepdim=True))
    rough = attention.distance(weights, grid, renormalise=False)
    assert rough[0, 0].item() == pytest.approx(naive(among[0, 0], grid, 1))
    assert (rough < attention.distance(weights, grid)).all()


def test_attention_that_ignores_leading_tokens_is_the_same_with_and_without_them() -> None:
    grid = Grid(3, 4)
    weights = random_weights(grid)
    padded = torch.nn.functional.pad(weights, (1, 0, 1, 0))
    padded[..., 0, 0] = 1.0
    for renormalise in (True, False):
        found = attention.distance(padded, grid, renormalise=renormalise)
        torch.testing.assert_close(found, attention.distance(weights, grid))


@pytest.mark.parametrize("causal", [False, True])
def test_rollout_is_the_product_of_halved_sums_with_the_identity(causal: bool) -> None:
    grid = Grid(2, 3)
    layers = [random_weights(grid, causal=causal).roll(k, 1) ** (k + 1) for k in range(3)]
    layers = [each / each.sum(-1, keepdim=True) for each in layers]
    found = attention.rollout(layers)
    expected = torch.eye(6, dtype=torch.float64)
    for each in layers:
        expected = (each[1].mean(0) + torch.eye(6)) / 2 @ expected
    torch.testing.assert_close(found[1], expected)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 6, dtype=torch.float64))
    assert bool((found.triu(1) == 0).all()) == causal


def test_rollout_through_layers_that_look_at_themselves_alone_stays_where_it_is() -> None:
    itself = torch.eye(5).expand(1, 2, 5, 5)
    torch.testing.assert_close(attention.rollout([itself] * 4), torch.eye(5)[None])


def test_rollout_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no layers"):
        attention.rollout([])


@pytest.mark.parametrize("case", [AR, MASKED], ids=cases.title)
def test_distances_by_head_do_not_depend_on_how_images_are_batched(
    case: cases.Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, images, told = cases.busy(case), cases.images(case, 5), []
    backbone = net.backbone
    whole = attention.distance_by_head(net, images, cell=1)
    monkeypatch.setattr(attention, "ENTRIES", 2 * backbone.grid.positions**2)
    parts = attention.distance_by_head(net, images, cell=1, done=told.append)
    assert whole.shape == (case.model.depth, case.model.block.heads, 5)
    assert told == [2, 4, 5]
    torch.testing.assert_close(parts, whole)
    direct = [
        attention.distance(w, backbone.grid)[3] for w in backbone.attention_weights(net.inputs_of(images))
    ]
    torch.testing.assert_close(whole[..., 3], torch.stack(direct).detach())


@pytest.mark.parametrize("case", [AR, MASKED], ids=cases.title)
def test_a_gaze_is_the_rows_of_its_positions(case: cases.Recipe) -> None:
    net, image = cases.busy(case), cases.images(case, 1)
    backbone = net.backbone
    queries = torch.tensor([3, 11])
    found = attention.gaze(net, image, queries)
    layers = [each.detach() for each in backbone.attention_weights(net.inputs_of(image))]
    assert found.heads.shape == (2, case.model.depth, case.model.block.heads, backbone.grid.positions)
    torch.testing.assert_close(found.heads[1, 0], layers[0][0, :, 11])
    torch.testing.assert_close(found.rollout, attention.rollout(layers)[0, queries])
    later = torch.arange(backbone.grid.positions) > 3
    assert bool((found.heads[0, :, :, later] == 0).all()) == isinstance(case.objective, Autoregressive)


def test_a_gaze_may_start_at_the_class_token() -> None:
    net, image = cases.busy(GROWN), cases.images(GROWN, 1)
    backbone = net.backbone
    found = attention.gaze(net, image, torch.tensor([0, 4]))
    layers = [each.detach() for each in backbone.attention_weights(net.inputs_of(image))]
    assert layers[0].shape[-1] == 1 + backbone.grid.positions
    for query, token in enumerate((0, 4)):
        rows = torch.stack([each[0, :, token, 1:] for each in layers])
        torch.testing.assert_close(found.heads[query], rows / rows.sum(-1, keepdim=True))
        flow = attention.rollout(layers)[0, token, 1:]
        torch.testing.assert_close(found.rollout[query], flow / flow.sum())


def test_without_renormalising_distances_by_head_lack_what_the_class_token_takes() -> None:
    net, images = cases.busy(GROWN), cases.images(GROWN, 2)
    backbone = net.backbone
    short = attention.distance_by_head(net, images, cell=8, renormalise=False)
    for found, weights in zip(short, backbone.attention_weights(net.inputs_of(images)), strict=True):
        among = weights.detach()[..., 1:, 1:]
        expected = [[naive(among[b, h], backbone.grid, 8) for b in range(2)] for h in range(among.shape[1])]
        torch.testing.assert_close(found, torch.tensor(expected))
    assert (short < attention.distance_by_head(net, images, cell=8)).all()


def test_blocks_that_do_not_attend_are_refused() -> None:
    blind = next(case for case in cases.CASES if case.model.block.kind == "convolution")
    network = cases.network(blind)
    with pytest.raises(ValueError, match="do not attend"):
        attention.distance_by_head(network, cases.images(blind), cell=1)
